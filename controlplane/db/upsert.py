"""Insert-or-update statements that SQLite and PostgreSQL both understand."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import TextClause, text
from sqlalchemy.orm import Session


def upsert(
    table: str, columns: Sequence[str], keys: Sequence[str], *, only_where: str = ""
) -> TextClause:
    """`INSERT … ON CONFLICT (keys) DO UPDATE` of all other columns, for executemany.

    `only_where` limits the update; a row that it excludes is left alone and not counted. The
    arguments are names from the models, never input.
    """
    names = ", ".join(columns)
    values = ", ".join(f":{column}" for column in columns)
    return text(
        f"INSERT INTO {table} ({names}) VALUES ({values}) "  # noqa: S608 - names of our own
        + _on_conflict(columns, keys, only_where)
    )


def execute_many(session: Session, statement: TextClause, rows: list[dict[str, Any]]) -> int:
    """Run a statement for every row; gives how many rows it changed.

    SQLite's driver takes named values as they are, so there the rows are not looked at one by one.
    """
    connection = session.connection()
    if connection.dialect.name == "sqlite":
        return connection.exec_driver_sql(statement.text, rows).rowcount
    return connection.execute(statement, rows).rowcount


def upsert_select(
    table: str, columns: Sequence[str], keys: Sequence[str], source: str, *, only_where: str = ""
) -> str:
    """The same with every row of another table as its values."""
    names = ", ".join(columns)
    return (
        f"INSERT INTO {table} ({names}) SELECT {names} FROM {source} "  # noqa: S608 - names of our own
        + _on_conflict(columns, keys, only_where)
    )


def _on_conflict(columns: Sequence[str], keys: Sequence[str], only_where: str) -> str:
    updates = ", ".join(f"{column} = excluded.{column}" for column in columns if column not in keys)
    condition = f" WHERE {only_where}" if only_where else ""
    return f"ON CONFLICT ({', '.join(keys)}) DO UPDATE SET {updates}{condition}"
