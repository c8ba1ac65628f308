"""The engine's governed state in one SQLite file; a transaction is on the disk when it returns.

WAL with `synchronous=FULL`: a commit is fsynced, and a torn tail after a crash is ignored by
SQLite itself (its log has checksums). Bias values lie beside it, as files named by their hash.
"""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.errors import BadRequestError, StateError
from engine.server.durable import fsync_folder

_SCHEMA_VERSION = 1
_SCHEMA = """
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS generations (
  generation INTEGER PRIMARY KEY, document TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS intent (
  only_one INTEGER PRIMARY KEY CHECK (only_one = 1), document TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS leases (knob TEXT PRIMARY KEY, lease TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS answers (
  sequence INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL UNIQUE, fingerprint TEXT NOT NULL,
  status INTEGER NOT NULL, body TEXT NOT NULL, etag TEXT) STRICT;
CREATE TABLE IF NOT EXISTS biases (
  bias_hash TEXT PRIMARY KEY, version INTEGER NOT NULL UNIQUE, info TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS placements (
  placement_id TEXT PRIMARY KEY, body TEXT NOT NULL) STRICT;
"""


class Database:
    """One connection; a reader waits for the transaction of another thread to end."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        try:
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.execute("PRAGMA synchronous=FULL")
            self._connection.executescript(_SCHEMA)
            self._check_version()
        except StateError:
            self._connection.close()
            raise
        except sqlite3.Error as error:
            self._connection.close()
            raise self._failed(error) from error
        fsync_folder(path.parent)

    def _check_version(self) -> None:
        (found,) = self._connection.execute("PRAGMA user_version").fetchone()
        if found not in (0, _SCHEMA_VERSION):
            raise StateError(
                f"{self._path} has schema {found}, this program knows {_SCHEMA_VERSION}",
                field="state_dir", value=found, bound=_SCHEMA_VERSION,
            )  # fmt: skip
        self._connection.execute(f"PRAGMA user_version={_SCHEMA_VERSION}")

    def _failed(self, error: sqlite3.Error) -> StateError:
        return StateError(
            f"the state in {self._path} cannot be used: {error}",
            field="state_dir", value=str(self._path.parent),
        )  # fmt: skip

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All of the block's writes, durable at its end, or none of them.

        Raises:
            StateError: the disk refused (full, read-only, damaged); nothing was written.
        """
        with self._lock:
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                yield self._connection
                self._connection.execute("COMMIT")
            except sqlite3.Error as error:
                raise self._failed(error) from error
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")

    def rows(self, query: str, *values: object) -> list[tuple[str, ...]]:
        """Read; every stored body is text."""
        with self._lock:
            try:
                return self._connection.execute(query, values).fetchall()
            except sqlite3.Error as error:
                raise self._failed(error) from error
            except OverflowError as error:
                raise BadRequestError(f"a number has more than 64 bits: {error}") from error

    def close(self) -> None:
        """Close the file, after the transaction that runs."""
        with self._lock:
            self._connection.close()
