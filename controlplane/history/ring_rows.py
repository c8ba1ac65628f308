"""Writing rows of the ring: one upsert that never overwrites a slot that is not sealed yet."""

from typing import Any, cast

from sqlalchemy import CursorResult, text
from sqlalchemy.orm import Session

from controlplane.db.upsert import execute_many, upsert, upsert_select

_RING_COLUMNS = (
    "engine_id", "slot", "ordinal", "boot_id", "sequence", "started", "interval_seconds",
    "sealed", "payload",
)  # fmt: skip
_UPSERT_RING = upsert(
    "load_ring", _RING_COLUMNS, ("engine_id", "slot"), only_where="load_ring.sealed"
)
COPY_FROM = 8
"""Rows from which COPY pays on PostgreSQL."""
_INCOMING = text("CREATE TEMPORARY TABLE incoming (LIKE load_ring) ON COMMIT DROP")
_COPY = f"COPY incoming ({', '.join(_RING_COLUMNS)}) FROM STDIN (FORMAT BINARY)"
_COPY_TYPES = ("varchar", "int8", "int8", "varchar", "int8", "float8", "float8", "bool", "bytea")
_UPSERT_INCOMING = text(
    upsert_select(
        "load_ring", _RING_COLUMNS, ("engine_id", "slot"), "incoming",
        only_where="load_ring.sealed",
    )
)  # fmt: skip


def write_ring(session: Session, rows: list[dict[str, Any]]) -> int:
    """Upsert ring rows; gives how many were written.

    PostgreSQL takes larger batches by binary COPY into a table of the session, then upserts from
    there: payloads are neither escaped nor sent row by row.
    """
    if session.get_bind().dialect.name != "postgresql" or len(rows) < COPY_FROM:
        return execute_many(session, _UPSERT_RING, rows)
    session.execute(_INCOMING)
    driver: Any = session.connection().connection.driver_connection
    with driver.cursor() as cursor, cursor.copy(_COPY) as copy:
        copy.set_types(_COPY_TYPES)
        for row in rows:
            copy.write_row([row[name] for name in _RING_COLUMNS])
    return cast("CursorResult[Any]", session.execute(_UPSERT_INCOMING)).rowcount
