"""Reading stored frames of one engine over a span of time."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from contract.frame_codec import Frame
from contract.frame_stack import Stack, decode_stack
from controlplane.history.cache import FrameCache, FrameKey
from controlplane.history.chunk_codec import CorruptChunkError, decode_chunk
from controlplane.history.models import EngineBoot, FrameGap, LoadChunk, LoadRing
from controlplane.history.tiers import MINUTE

logger = logging.getLogger(__name__)

_ROWS_AT_A_TIME = 250


@dataclass(frozen=True, slots=True)
class Gap:
    """Frames of a boot that are missing: sequences `first` to `last`, inclusive."""

    engine_id: str
    boot_id: str
    first_sequence: int
    last_sequence: int
    started: float
    ended: float

    @property
    def frames(self) -> int:
        """How many are missing."""
        return self.last_sequence - self.first_sequence + 1


def stack_of_ring(
    session: Session,
    cache: FrameCache,
    engine_id: str,
    start: float,
    end: float,
    *,
    unsealed_only: bool = False,
) -> Stack:
    """Frames of [start, end) by start time, oldest first; damaged ones are left out.

    The database says which frames there are; the cache only saves reading them.
    """
    query = (
        select(LoadRing.boot_id, LoadRing.sequence, LoadRing.slot)
        .where(LoadRing.engine_id == engine_id, LoadRing.started >= start, LoadRing.started < end)
        .order_by(LoadRing.started)
    )
    if unsealed_only:
        query = query.where(~LoadRing.sealed)
    packed: dict[int, bytes | None] = {}
    for boot_id, sequence, slot in session.execute(query):
        held = cache.get(FrameKey(engine_id, boot_id, sequence))
        packed[slot] = None if held is None else held.data
    lacking = [slot for slot, data in packed.items() if data is None]
    for first in range(0, len(lacking), _ROWS_AT_A_TIME):
        packed |= _payloads(session, engine_id, lacking[first : first + _ROWS_AT_A_TIME])
    return decode_stack([data for data in packed.values() if data is not None])[0]


def _payloads(session: Session, engine_id: str, slots: Sequence[int]) -> dict[int, bytes]:
    """Stored frames by slot, in one question."""
    query = select(LoadRing.slot, LoadRing.payload).where(
        LoadRing.engine_id == engine_id, LoadRing.slot.in_(slots)
    )
    return {row.slot: row.payload for row in session.execute(query)}


def frames_of_chunks(
    session: Session, engine_id: str, start: float, end: float, *, before_ordinal: int
) -> Iterator[Frame]:
    """Frames of sealed chunks in [start, end) whose ring slot was overwritten since.

    `before_ordinal` is the oldest ordinal that the ring still holds. A damaged chunk is left out.
    """
    payloads = session.execute(
        select(LoadChunk.t0, LoadChunk.part, LoadChunk.payload)
        .where(
            LoadChunk.engine_id == engine_id,
            LoadChunk.t0 > start - MINUTE,
            LoadChunk.t0 < end,
            LoadChunk.first_ordinal < before_ordinal,
        )
        .order_by(LoadChunk.t0, LoadChunk.part)
        .execution_options(yield_per=1)
    )
    for t0, part, payload in payloads:
        try:
            frames = decode_chunk(payload).frames()
        except CorruptChunkError:
            logger.exception("chunk %s/%s/%s is left out", engine_id, t0, part)
            continue
        for frame in frames:
            if start <= frame.header.started_unix_seconds < end:
                yield frame


def minutes_with_frames(session: Session, engine_id: str, start: float, end: float) -> list[int]:
    """Starts of the minutes that hold frames of [start, end), oldest first."""
    chunks = session.scalars(
        select(LoadChunk.t0).where(
            LoadChunk.engine_id == engine_id, LoadChunk.t0 > start - MINUTE, LoadChunk.t0 < end
        )
    )
    ring = session.scalars(
        select(LoadRing.started).where(
            LoadRing.engine_id == engine_id, LoadRing.started >= start, LoadRing.started < end
        )
    )
    return sorted({*chunks, *(int(started // MINUTE) * MINUTE for started in ring)})


def oldest_ordinal(session: Session, engine_id: str, ring_frames: int) -> int | None:
    """The oldest ordinal in the engine's ring; None when it never sent a frame.

    In a ring of this size it lies in the slot after the newest one's. Only when it does not (the
    size was changed) is every slot looked at: each is a page of its own. Slots beyond the size may
    hold older frames still.
    """
    newest = session.scalar(
        select(func.max(EngineBoot.last_ordinal)).where(EngineBoot.engine_id == engine_id)
    )
    if newest is None:
        return None
    oldest = max(0, newest + 1 - ring_frames)
    there = session.scalar(
        select(LoadRing.ordinal).where(
            LoadRing.engine_id == engine_id, LoadRing.slot == oldest % ring_frames
        )
    )
    if there == oldest:
        return oldest
    return session.scalar(select(func.min(LoadRing.ordinal)).where(LoadRing.engine_id == engine_id))


def gaps_of(session: Session, engine_id: str, start: float, end: float) -> list[Gap]:
    """Gaps that touch [start, end), oldest first."""
    rows = session.scalars(
        select(FrameGap)
        .where(FrameGap.engine_id == engine_id, FrameGap.started < end, FrameGap.ended >= start)
        .order_by(FrameGap.started, FrameGap.first_sequence)
    )
    return [
        Gap(
            engine_id=row.engine_id, boot_id=row.boot_id, first_sequence=row.first_sequence,
            last_sequence=row.last_sequence, started=row.started, ended=row.ended,
        )
        for row in rows
    ]  # fmt: skip
