"""Transactions of the database."""

import threading

import pytest
from sqlalchemy import select, text

from controlplane.db.database import open_database
from controlplane.errors import InvalidInputError, StorageError
from controlplane.history.models import IncidentPin


def _pin(reason: str) -> IncidentPin:
    return IncidentPin(
        engine_id=None, started=0.0, ended=1.0, reason=reason, actor="a", created_at=0.0
    )


def _reasons(database) -> list[str]:
    with database.read() as session:
        return list(session.scalars(select(IncidentPin.reason).order_by(IncidentPin.id)))


def test_write_commits_and_read_sees_it(database):
    with database.write() as session:
        session.add(_pin("kept"))
    assert _reasons(database) == ["kept"]


def test_a_raising_body_stores_nothing(database):
    def fails() -> None:
        with database.write() as session:
            session.add(_pin("lost"))
            session.flush()
            raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        fails()
    assert _reasons(database) == []


def test_writers_of_many_threads_all_succeed(database):
    def write(index: int) -> None:
        with database.write() as session:
            session.add(_pin(str(index)))

    threads = [threading.Thread(target=write, args=(i,)) for i in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(_reasons(database)) == 16


def test_nested_writes_are_refused_instead_of_hanging(sqlite_database):
    with (
        sqlite_database.write(),
        pytest.raises(RuntimeError, match="pass the session on"),
        sqlite_database.write(),
    ):
        pass


def test_sqlite_is_wal_and_fsyncs_every_commit(sqlite_database):
    with sqlite_database.read() as session:
        assert session.scalar(text("PRAGMA journal_mode")) == "wal"
        assert session.scalar(text("PRAGMA synchronous")) == 2
        assert session.scalar(text("PRAGMA page_size")) == 8192


def test_a_locked_database_is_a_storage_error_and_stores_nothing(sqlite_database):
    other = open_database(str(sqlite_database.engine.url), busy_seconds=0.05)
    with (
        sqlite_database.write(),
        pytest.raises(StorageError, match="locked"),
        other.write() as session,
    ):
        session.add(_pin("late"))
    other.close()
    assert _reasons(sqlite_database) == []


def test_a_database_that_is_gone_is_a_storage_error():
    database = open_database("postgresql://nobody@127.0.0.1:9/none")
    with pytest.raises(StorageError):
        database.answers()
    database.close()


def test_the_sqlite_file_is_private(sqlite_database, tmp_path):
    assert (tmp_path / "trimtab.db").stat().st_mode & 0o077 == 0


def test_a_number_that_no_column_holds_is_the_callers_mistake(database):
    with pytest.raises(InvalidInputError, match="outside"), database.read() as session:
        session.scalars(select(IncidentPin).where(IncidentPin.id == 10**30)).all()


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:", "sqlite:///file::memory:"])
def test_a_database_in_memory_is_refused(url):
    with pytest.raises(InvalidInputError, match="names no file") as caught:
        open_database(url)
    assert caught.value.field == "database_url"


def test_a_file_is_made_only_when_it_is_wanted(tmp_path):
    database = open_database(f"sqlite:///{tmp_path}/mistyped.db", create=False)
    with pytest.raises(StorageError, match="trimtab db upgrade"):
        database.answers()
    database.close()
    assert not (tmp_path / "mistyped.db").exists()
