"""A database, and the two ways to use it: `read()` and `write()`.

SQLite runs in WAL mode with `synchronous=FULL`: a commit returns after fsync, so what was committed
survives a power loss. Writers take the write lock at BEGIN and queue behind one another in this
process; another process's writer is waited for at most `busy_seconds`.
"""

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.orm import Session

from controlplane.db.base import LARGEST_INTEGER
from controlplane.db.sqlite_file import SqliteFile
from controlplane.errors import InvalidInputError, StorageError

_WRITE = "trimtab_write"
_SNAPSHOT = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
_PAGE_SIZE = 8192
_AUTOCHECKPOINT_PAGES = 4000
_CACHE_KIB = 8 * 1024
"""Of each connection: the indices of the ring, which one minute's frames would push out of SQLite's
own 2 MiB."""


class Database:
    """An engine with its transaction habits; make one with `open_database`."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._one_writer = _OneWriter() if self.is_sqlite else None

    @property
    def is_sqlite(self) -> bool:
        """Whether this is SQLite; otherwise PostgreSQL."""
        return self.engine.dialect.name == "sqlite"

    @property
    def folder(self) -> Path | None:
        """Where the SQLite file lies; None for PostgreSQL and for memory."""
        name = self.engine.url.database if self.is_sqlite else None
        return Path(name).absolute().parent if name and name != ":memory:" else None

    @contextmanager
    def read(self) -> Iterator[Session]:
        """A session on one consistent snapshot; nothing is committed.

        Raises:
            StorageError: the database does not answer.
            InvalidInputError: a value that was asked for fits no column.
        """
        with _storage_errors(), Session(self.engine, expire_on_commit=False) as session:
            if not self.is_sqlite:
                session.connection(execution_options=_SNAPSHOT)
            yield session

    @contextmanager
    def write(self) -> Iterator[Session]:
        """A session that commits at the end, or rolls back when the body raises.

        Raises:
            StorageError: the database cannot take the write now; nothing was stored.
            InvalidInputError: a value fits no column; nothing was stored.
        """
        turn: AbstractContextManager[Any] = self._one_writer or nullcontext()
        with (
            turn,
            _storage_errors(),
            Session(self.engine, expire_on_commit=False) as session,
        ):
            session.connection(execution_options={_WRITE: True})
            yield session
            session.commit()

    def answers(self) -> None:
        """Ask the database a trivial question.

        Raises:
            StorageError: it does not answer.
        """
        with self.read() as session:
            session.execute(text("SELECT 1"))

    def close(self) -> None:
        """Close every pooled connection."""
        self.engine.dispose()


class _OneWriter:
    """A lock that says so when the thread that holds it asks again, instead of hanging."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holder: int | None = None

    def __enter__(self) -> None:
        if self._holder == threading.get_ident():
            raise RuntimeError("Database.write() inside Database.write(): pass the session on")
        self._lock.acquire()
        self._holder = threading.get_ident()

    def __exit__(self, *_exc: object) -> None:
        self._holder = None
        self._lock.release()


@contextmanager
def _storage_errors() -> Iterator[None]:
    try:
        yield
    except IntegrityError:
        raise
    except OverflowError as error:
        raise InvalidInputError(
            f"a whole number is outside ±{LARGEST_INTEGER}, which is what the database stores",
            bound=LARGEST_INTEGER,
        ) from error
    except DataError as error:
        said = f"a value is outside what the database stores: {error.orig}"
        raise InvalidInputError(said) from error
    except DBAPIError as error:
        raise StorageError(f"the database cannot serve this now: {error.orig}") from error
    except PoolTimeoutError as error:
        raise StorageError(f"no database connection is free: {error}") from error


def open_database(url: str, *, busy_seconds: float = 5.0, create: bool = True) -> Database:
    """Open `sqlite:///PATH` or `postgresql://…`; the schema is `migrations`' business.

    Args:
        url: where it is.
        busy_seconds: for how long another process's writer is waited for (SQLite).
        create: whether to make an SQLite file that is not there, readable by its owner alone.

    Raises:
        InvalidInputError: an SQLite database in memory, which no two connections would share.
    """
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite":
        return Database(create_engine(parsed, pool_pre_ping=True, pool_size=8))
    if is_in_memory(url):
        raise InvalidInputError(
            f"database_url {url!r} names no file: sqlite:///PATH is needed",
            field="database_url", value=url,
        )  # fmt: skip
    file = SqliteFile(Path(parsed.database or ""))
    if create:
        _make_private(file.path)
    # The connection that wrote last is taken next: SQLite empties the cache of any other one.
    engine = create_engine(
        parsed,
        pool_use_lifo=True,
        connect_args={"timeout": busy_seconds, "isolation_level": None},
    )
    file.watch(engine)
    event.listen(engine, "connect", _set_pragmas)
    event.listen(engine, "begin", _begin)
    return Database(engine)


def is_in_memory(url: str) -> bool:
    """Whether an URL names an SQLite database that has no file."""
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite":
        return False
    name = parsed.database or ""
    return name in ("", ":memory:") or name.startswith("file:")


def _make_private(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        path.touch(mode=0o600)


def _set_pragmas(connection: Any, _record: object) -> None:
    cursor = connection.cursor()
    for pragma in (
        f"page_size={_PAGE_SIZE}",
        "journal_mode=WAL",
        "synchronous=FULL",
        "foreign_keys=ON",
        f"cache_size=-{_CACHE_KIB}",
        f"wal_autocheckpoint={_AUTOCHECKPOINT_PAGES}",
    ):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _begin(connection: Connection) -> None:
    wants_lock = connection.get_execution_options().get(_WRITE, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if wants_lock else "BEGIN")
