"""Looking at the stored history: which blobs are damaged, how much there is of what."""

import math
import sqlite3
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import JSON, Text, func, select, text, type_coerce
from sqlalchemy.orm import Session

from contract.frame_codec import FrameError, decode
from controlplane.db.base import Base
from controlplane.db.database import Database
from controlplane.db.forgiving_json import ForgivingJson
from controlplane.errors import StorageError
from controlplane.history import sealing
from controlplane.history.chunk_codec import CorruptChunkError, decode_chunk
from controlplane.history.models import FrameGap, LoadChunk, LoadRing, LoadRollup
from controlplane.history.window_codec import decode_window

_HAS_DBSTAT = "SELECT count(*) FROM pragma_module_list WHERE name = 'dbstat'"
_SIZE_ON_SQLITE = (
    "SELECT sum(pgsize) FROM dbstat WHERE name IN"
    " (SELECT name FROM sqlite_master WHERE tbl_name = :table)"
)
# An ordinary table has no partition tree at all, and a partitioned one has no bytes of its own.
_SIZE_ON_POSTGRESQL = (
    "SELECT pg_total_relation_size(CAST(:table AS regclass)) + coalesce(("
    " SELECT sum(pg_total_relation_size(relid))"
    " FROM pg_partition_tree(CAST(:table AS regclass)) WHERE level > 0), 0)"
)


@dataclass(frozen=True, slots=True)
class Damage:
    """A stored blob that cannot be read, named by its table and key."""

    table: str
    key: str
    reason: str


@dataclass(frozen=True, slots=True)
class TableSize:
    """A table's rows and bytes on disk, indexes and partitions included."""

    table: str
    rows: int
    size_bytes: int


def damaged(session: Session) -> Iterator[Damage]:
    """Every damaged blob and text; reads and unpacks the whole history."""
    yield from _unreadable(
        session, "load_ring", decode, LoadRing.engine_id, LoadRing.slot, payload=LoadRing.payload
    )
    yield from _unreadable(
        session, "load_chunk", decode_chunk, LoadChunk.engine_id, LoadChunk.t0, LoadChunk.part,
        payload=LoadChunk.payload,
    )  # fmt: skip
    yield from _unreadable(
        session, "load_rollup", decode_window, LoadRollup.engine_id, LoadRollup.tier,
        LoadRollup.t0, payload=LoadRollup.payload,
    )  # fmt: skip


def unsealable(session: Session) -> Iterator[Damage]:
    """Minutes of the ring that cannot be sealed: they would fill it in the end."""
    waiting = sealing.due_minutes(session, now=math.inf, grace_seconds=0.0, ring_frames=sys.maxsize)
    for due in waiting:
        try:
            sealing.rehearse(session, due)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is what sealing meets
            said = f"the minute cannot be sealed: {type(error).__name__}: {error}"
            yield Damage("load_ring", f"{due.engine_id}/{due.t0}", said)


def damaged_texts(session: Session) -> Iterator[Damage]:
    """JSON that cannot be read, in any table; PostgreSQL stores none."""
    if session.get_bind().dialect.name != "sqlite":
        return
    for table in Base.metadata.sorted_tables:
        for column in table.columns:
            if not isinstance(column.type, JSON | ForgivingJson):
                continue
            query = select(*table.primary_key.columns).where(
                column.is_not(None), func.json_valid(type_coerce(column, Text)) == 0
            )
            for key in session.execute(query):
                name = "/".join(str(part) for part in key)
                yield Damage(table.name, name, f"{column.name} is not JSON")


def _unreadable(
    session: Session, table: str, read: Callable[[bytes], object], *keys: Any, payload: Any
) -> Iterator[Damage]:
    rows = session.execute(select(*keys, payload).execution_options(yield_per=20))
    for row in rows:
        *key, blob = row
        try:
            read(blob)
        except (CorruptChunkError, FrameError) as error:
            yield Damage(table, "/".join(str(part) for part in key), str(error))


def integrity_errors(database: Database) -> list[str]:
    """What SQLite's own check says is wrong with the file; PostgreSQL checks pages as it reads."""
    if not database.is_sqlite:
        return []
    with database.read() as session:
        said = list(session.scalars(text("PRAGMA integrity_check")))
    return [] if said == ["ok"] else said


def sizes(database: Database) -> list[TableSize]:
    """Rows and bytes of every table of ours, by name; 0 bytes where SQLite cannot tell."""
    with database.read() as session:
        return [
            TableSize(
                table.name,
                session.scalar(select(func.count()).select_from(table)) or 0,
                _bytes_of(session, table.name, sqlite=database.is_sqlite),
            )
            for table in sorted(Base.metadata.tables.values(), key=lambda table: table.name)
        ]


def _bytes_of(session: Session, table: str, *, sqlite: bool) -> int:
    if sqlite and not session.scalar(text(_HAS_DBSTAT)):
        return 0
    query = _SIZE_ON_SQLITE if sqlite else _SIZE_ON_POSTGRESQL
    return int(session.scalar(text(query), {"table": table}) or 0)


def missing_frames(session: Session) -> int:
    """Frames that are known to be lost, all engines together."""
    lost = func.sum(FrameGap.last_sequence - FrameGap.first_sequence + 1)
    return int(session.scalar(select(lost)) or 0)


def vacuum(database: Database) -> None:
    """Give free pages back to the file system. Needs as much free space as there is data.

    Raises:
        StorageError: SQLite cannot do it now.
    """
    if database.is_sqlite:
        _vacuum_file(database)
        return
    with database.engine.connect() as connection:
        connection.execution_options(isolation_level="AUTOCOMMIT").execute(text("VACUUM ANALYZE"))


def _vacuum_file(database: Database) -> None:
    """Outside of any transaction, so past what turns the driver's errors into ours."""
    raw = database.engine.raw_connection()
    try:
        raw.cursor().execute("VACUUM")
        raw.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except sqlite3.Error as error:
        raise StorageError(f"the database cannot be vacuumed now: {error}") from error
    finally:
        raw.close()
