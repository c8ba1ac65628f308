"""The declarative base of every table, with one naming convention for constraints.

Times are unix seconds (`Double`), aligned starts of intervals are whole seconds (`BigInteger`), so
SQLite and PostgreSQL compare them alike and no time zone can slip in.
"""

from typing import Annotated, Any, ClassVar

from sqlalchemy import JSON, BigInteger, Double, Integer, LargeBinary, MetaData, String
from sqlalchemy.orm import DeclarativeBase, mapped_column

NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}

LARGEST_INTEGER = 2**63 - 1
"""The largest whole number that a column holds."""

AutoId = Annotated[
    int, mapped_column(BigInteger().with_variant(Integer(), "sqlite"), primary_key=True)
]
"""A key that numbers itself (SQLite numbers INTEGER keys only)."""


class Base(DeclarativeBase):
    """Base of all models; each package declares its own in `models.py`."""

    metadata = MetaData(naming_convention=NAMING)
    type_annotation_map: ClassVar[dict[Any, Any]] = {
        int: BigInteger,
        float: Double,
        str: String,
        bytes: LargeBinary,
        dict[str, Any]: JSON,
        list[Any]: JSON,
    }
