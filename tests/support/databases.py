"""Databases for tests: real SQLite files and a real PostgreSQL, migrated to the newest revision."""

from collections.abc import Iterator
from contextlib import contextmanager

from controlplane.db.database import Database, open_database
from migrations.run import upgrade


@contextmanager
def migrated(url: str) -> Iterator[Database]:
    """Open, upgrade, close."""
    database = open_database(url)
    try:
        upgrade(database)
        yield database
    finally:
        database.close()
