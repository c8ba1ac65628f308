"""Sealing: frames of a minute that is over become one chunk, its rollups and its layer rows.

Each engine's minute is sealed in one transaction that also marks the ring's slots as sealed, so a
kill at any moment leaves a minute either sealed or not. Late frames make a further part of their
minute, and its rollups are summed anew from all parts. So does what is too large to be unpacked at
once.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Integer,
    bindparam,
    func,
    insert,
    literal_column,
    select,
    update,
)
from sqlalchemy import cast as sql_cast
from sqlalchemy.orm import Session

from contract.frame_codec import payload_bytes
from contract.frame_stack import Stack, decode_stack
from controlplane.db.base import Base
from controlplane.errors import ConflictError
from controlplane.history import hours
from controlplane.history.chunk_codec import CODEC, CorruptChunkError, decode_chunk, encode_chunk
from controlplane.history.layer_summary import summarise
from controlplane.history.minute_sums import MinuteSums, store_rollups
from controlplane.history.models import LoadChunk, LoadRing
from controlplane.history.partitions import CHUNKS
from controlplane.history.tiers import MINUTE, SLICE
from controlplane.history.window_codec import encode_window

logger = logging.getLogger(__name__)

PART_BYTES = 32 * 1024 * 1024
"""Of arrays, inflated, in one part of a minute: more than a minute of the largest models has. A
single frame may be larger."""
_READ_AHEAD = 8
"""Frames that are read from the ring at a time."""
_SECONDS: ColumnElement[float] = literal_column("60.0")
"""Not bound: PostgreSQL would not know that what is selected is what is grouped by."""
_TABLES = Base.metadata.tables
_RING, _CHUNK = _TABLES["load_ring"].c, _TABLES["load_chunk"].c
_ENGINE: BindParameter[str] = bindparam("engine")
# Built once, of tables rather than mapped classes: 64 engines are sealed in a row.
_OF_MINUTE = (
    select(_RING.ordinal, _RING.started, _RING.sequence, _RING.payload)
    .where(
        _RING.engine_id == _ENGINE,
        _RING.started >= bindparam("t0"),
        _RING.started < bindparam("end"),
        ~_RING.sealed,
    )
    .order_by(_RING.ordinal)
)
# What came after the minute was read has a higher ordinal.
_MARK = (
    update(_TABLES["load_ring"])
    .where(
        _RING.engine_id == _ENGINE,
        _RING.ordinal.between(bindparam("first"), bindparam("last")),
        _RING.started >= bindparam("t0"),
        _RING.started < bindparam("end"),
        ~_RING.sealed,
    )
    .values(sealed=True)
)
_LAST_PART = select(func.max(_CHUNK.part)).where(
    _CHUNK.engine_id == _ENGINE, _CHUNK.t0 == bindparam("t0")
)


@dataclass(frozen=True, slots=True)
class Due:
    """One engine's minute, with frames in the ring that wait to be sealed.

    Attributes:
        pressing: the engine's unsealed frames fill a quarter of the ring: not to be put off.
    """

    engine_id: str
    t0: int
    pressing: bool


def due_minutes(
    session: Session, *, now: float, grace_seconds: float, ring_frames: int
) -> list[Due]:
    """Minutes to seal now, oldest first.

    A minute is due `grace_seconds` after its end, by the frames' own start times. Whatever their
    clock says, frames are due too once newer ones fill three quarters of the ring.
    """
    minute = _minute_of_row(session)
    groups = session.execute(
        select(LoadRing.engine_id, minute, func.min(LoadRing.ordinal), func.max(LoadRing.ordinal))
        .where(~LoadRing.sealed)
        .group_by(LoadRing.engine_id, minute)
    ).all()
    newest: dict[str, int] = {}
    oldest: dict[str, int] = {}
    for engine_id, _, first, last in groups:
        newest[engine_id] = max(last, newest.get(engine_id, last))
        oldest[engine_id] = min(first, oldest.get(engine_id, first))
    return [
        Due(
            engine_id, int(number) * MINUTE,
            pressing=newest[engine_id] - oldest[engine_id] >= ring_frames // 4,
        )
        for engine_id, number, first, _ in sorted(groups, key=lambda group: (group[1], group[0]))
        if (int(number) + 1) * MINUTE + grace_seconds <= now
        or newest[engine_id] - first >= ring_frames * 3 // 4
    ]  # fmt: skip


def _minute_of_row(session: Session) -> ColumnElement[Any]:
    """The number of the minute in which a frame started, of the index alone."""
    if session.get_bind().dialect.name == "sqlite":  # it may lack floor(); a cast cuts off
        return sql_cast(LoadRing.started / _SECONDS, Integer)
    return func.floor(LoadRing.started / _SECONDS)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A minute read and packed: where its frames are in the ring, they themselves, and their chunk.

    Damaged frames are among the ordinals, and nowhere else.
    """

    ordinals: Sequence[int]
    stack: Stack
    chunk: bytes


def prepare(session: Session, due: Due) -> Prepared:
    """Read and pack the frames of a minute; no transaction is held while this computes.

    Of frames that are too large together, those that came first: the others stay due.
    """
    rows = sorted(_part_of_ring(session, due), key=attrgetter("started", "sequence"))
    stack, damaged = decode_stack([row.payload for row in rows])
    for index, error in damaged.items():
        logger.error(
            "ring frame %s/%s is damaged and is not sealed: %s", due.engine_id,
            rows[index].ordinal, error,
        )  # fmt: skip
    ordinals = [row.ordinal for row in rows]
    return Prepared(ordinals, stack, encode_chunk(stack) if stack.headers else b"")


def _part_of_ring(session: Session, due: Due) -> list[Any]:
    """Frames of a minute by ordinal, until they are `PART_BYTES` together."""
    part: list[Any] = []
    size = 0
    with session.connection().execute(
        _OF_MINUTE,
        {"engine": due.engine_id, "t0": due.t0, "end": due.t0 + MINUTE},
        execution_options={"yield_per": _READ_AHEAD},
    ) as rows:
        for row in rows:
            size += payload_bytes(row.payload)
            if part and size > PART_BYTES:
                break
            part.append(row)
    return part


def store(session: Session, due: Due, prepared: Prepared) -> int:
    """Write chunk, rollups, layer rows and marks; gives how many frames were sealed.

    Raises:
        ConflictError: another process sealed some of them; roll back.
    """
    if not prepared.ordinals:
        return 0
    connection = session.connection()
    first, last = min(prepared.ordinals), max(prepared.ordinals)
    marked = connection.execute(
        _MARK,
        {"engine": due.engine_id, "first": first, "last": last, "t0": due.t0,
         "end": due.t0 + MINUTE},
    )  # fmt: skip
    if marked.rowcount != len(prepared.ordinals):
        raise ConflictError(f"minute {due.t0} of {due.engine_id} was sealed by another process")
    if not prepared.chunk:
        return 0
    stack = prepared.stack
    newest = connection.scalar(_LAST_PART, {"engine": due.engine_id, "t0": due.t0})
    part = 0 if newest is None else newest + 1
    connection.execute(
        insert(_TABLES["load_chunk"]),
        {
            "engine_id": due.engine_id, "t0": due.t0, "part": part, "frames": len(stack.headers),
            "counts": stack.numbers, "first_ordinal": first, "last_ordinal": last,
            "codec": CODEC, "payload": prepared.chunk,
        },
    )  # fmt: skip
    earlier = earlier_parts(session, due.engine_id, due.t0, part)
    store_rollups(session, due.engine_id, due.t0, earlier, stack)
    hours.note(session, due.engine_id, due.t0, stack)
    return len(stack.headers)


def earlier_parts(session: Session, engine_id: str, t0: int, before: int) -> Iterator[Stack]:
    """A minute's parts below `before`, one at a time; a damaged one is left out, and said so."""
    for part in range(before):
        payload = session.scalar(
            select(LoadChunk.payload).where(
                LoadChunk.engine_id == engine_id, LoadChunk.t0 == t0, LoadChunk.part == part
            )
        )
        try:
            if payload is not None:
                yield decode_chunk(payload)
        except CorruptChunkError:
            logger.exception("chunk %s/%s/%s is left out", engine_id, t0, part)


def rehearse(session: Session, due: Due) -> None:
    """Read, pack and sum a minute, and store nothing: what raises here raises at sealing."""
    sums = MinuteSums(due.engine_id, due.t0)
    sums.add(prepare(session, due).stack)
    minute, slices = sums.windows()
    if minute is not None:
        for window in (minute, *slices):
            encode_window(window)
        summarise(minute, MINUTE, due.t0)


def tables_of(t0: int) -> list[tuple[str, int, int]]:
    """Where the rows of a minute go: (table, tier, t0)."""
    return [
        ("load_chunk", CHUNKS, t0),
        ("load_rollup", SLICE, t0),
        ("load_rollup", MINUTE, t0),
        ("layer_summary", MINUTE, t0),
    ]
