"""Databases for tests: real SQLite files and a real PostgreSQL, migrated to the newest revision."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import event

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


def without_fsync(database: Database) -> None:
    """Spare a test that is not about power loss the wait for the disk."""
    if not database.is_sqlite:
        return

    def relax(connection, _record) -> None:
        connection.execute("PRAGMA synchronous=OFF")

    database.engine.dispose()
    event.listen(database.engine, "connect", relax)
