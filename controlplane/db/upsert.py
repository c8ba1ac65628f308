"""Insert-or-update statements that SQLite and PostgreSQL both understand."""

from collections.abc import Sequence

from sqlalchemy import TextClause, text


def upsert(
    table: str, columns: Sequence[str], keys: Sequence[str], *, only_where: str = ""
) -> TextClause:
    """`INSERT … ON CONFLICT (keys) DO UPDATE` of all other columns, for executemany.

    `only_where` limits the update; a row that it excludes is left alone and not counted. The
    arguments are names from the models, never input.
    """
    names = ", ".join(columns)
    values = ", ".join(f":{column}" for column in columns)
    updates = ", ".join(f"{column} = excluded.{column}" for column in columns if column not in keys)
    condition = f" WHERE {only_where}" if only_where else ""
    return text(
        f"INSERT INTO {table} ({names}) VALUES ({values}) "  # noqa: S608 - names of our own
        f"ON CONFLICT ({', '.join(keys)}) DO UPDATE SET {updates}{condition}"
    )
