"""Sealing: frames of a minute that is over become one chunk, its rollups and its layer rows.

Each engine's minute is sealed in one transaction that also marks the ring's slots as sealed, so a
kill at any moment leaves a minute either sealed or not. Late frames make a further part of their
minute, and its rollups are summed anew from all parts.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from sqlalchemy import CursorResult, func, insert, select, update
from sqlalchemy.orm import Session

from contract.frame_codec import Frame, FrameError, decode
from controlplane.db.upsert import upsert
from controlplane.errors import ConflictError
from controlplane.history.cache import FrameCache, FrameKey
from controlplane.history.chunk_codec import CODEC, CorruptChunkError, decode_chunk, encode_chunk
from controlplane.history.layer_summary import summarise
from controlplane.history.models import LayerSummary, LoadChunk, LoadRing
from controlplane.history.partitions import CHUNKS
from controlplane.history.summing import WindowSum, sum_frames
from controlplane.history.window import EngineWindow
from controlplane.history.window_codec import encode_window

logger = logging.getLogger(__name__)

MINUTE = 60
SLICE = 10
_ROWS_AT_A_TIME = 8
SUMMARY_COLUMNS = tuple(column.name for column in LayerSummary.__table__.columns)
UPSERT_SUMMARY = upsert("layer_summary", SUMMARY_COLUMNS, ("engine_id", "layer", "tier", "t0"))
UPSERT_ROLLUP = upsert(
    "load_rollup", ("engine_id", "tier", "t0", "frames", "payload"), ("engine_id", "tier", "t0")
)


@dataclass(frozen=True, slots=True)
class Due:
    """Frames of one engine's minute that wait in the ring to be sealed.

    Attributes:
        pressing: the engine's unsealed frames fill a quarter of the ring: not to be put off.
    """

    engine_id: str
    t0: int
    ordinals: tuple[int, ...]
    pressing: bool


@dataclass(frozen=True, slots=True)
class _RingFrame:
    ordinal: int
    frame: Frame | None


def due_minutes(
    session: Session, *, now: float, grace_seconds: float, ring_frames: int
) -> list[Due]:
    """Minutes to seal now, oldest first.

    A minute is due `grace_seconds` after its end, by the frames' own start times. Whatever their
    clock says, frames are due too once newer ones fill three quarters of the ring.
    """
    rows = session.execute(
        select(LoadRing.engine_id, LoadRing.ordinal, LoadRing.started)
        .where(~LoadRing.sealed)
        .order_by(LoadRing.engine_id, LoadRing.ordinal)
    ).all()
    newest: dict[str, int] = {}
    oldest: dict[str, int] = {}
    groups: dict[tuple[int, str], list[int]] = {}
    for engine_id, ordinal, started in rows:
        newest[engine_id] = ordinal
        oldest.setdefault(engine_id, ordinal)
        groups.setdefault((minute_of(started), engine_id), []).append(ordinal)
    return [
        Due(
            engine_id, t0, tuple(ordinals),
            pressing=newest[engine_id] - oldest[engine_id] >= ring_frames // 4,
        )
        for (t0, engine_id), ordinals in sorted(groups.items())
        if t0 + MINUTE + grace_seconds <= now
        or newest[engine_id] - ordinals[0] >= ring_frames * 3 // 4
    ]  # fmt: skip


def minute_of(started: float) -> int:
    """Start of the minute that holds a time."""
    return int(started // MINUTE) * MINUTE


class Sealer:
    """Seals one minute at a time."""

    def __init__(self, cache: FrameCache) -> None:
        self._cache = cache

    def prepare(self, session: Session, due: Due) -> tuple[list[_RingFrame], bytes | None]:
        """Read and pack the frames of a minute; no transaction is held while this computes."""
        found = self._read(session, due)
        frames = [entry.frame for entry in found if entry.frame is not None]
        frames.sort(key=lambda frame: (frame.header.started_unix_seconds, frame.header.sequence))
        return found, encode_chunk(frames) if frames else None

    def store(
        self, session: Session, due: Due, found: Sequence[_RingFrame], chunk: bytes | None
    ) -> int:
        """Write chunk, rollups, layer rows and marks; gives how many frames were sealed.

        Raises:
            ConflictError: another process sealed some of them; roll back.
        """
        marked = session.execute(
            update(LoadRing)
            .where(
                LoadRing.engine_id == due.engine_id,
                LoadRing.ordinal.in_(due.ordinals),
                ~LoadRing.sealed,
            )
            .values(sealed=True)
        )
        if cast("CursorResult[Any]", marked).rowcount != len(due.ordinals):
            raise ConflictError(f"minute {due.t0} of {due.engine_id} was sealed by another process")
        if chunk is None:
            return 0
        frames = [entry.frame for entry in found if entry.frame is not None]
        part = self._next_part(session, due)
        session.execute(
            insert(LoadChunk).values(
                engine_id=due.engine_id, t0=due.t0, part=part, frames=len(frames),
                counts=sum(values.size for frame in frames for values in frame.arrays.values()),
                first_ordinal=due.ordinals[0], last_ordinal=due.ordinals[-1], codec=CODEC,
                payload=chunk,
            )
        )  # fmt: skip
        everything = frames + (earlier_parts(session, due.engine_id, due.t0, part) if part else [])
        store_rollups(session, due.engine_id, due.t0, everything)
        return len(frames)

    def _read(self, session: Session, due: Due) -> list[_RingFrame]:
        rows = session.execute(
            select(LoadRing.ordinal, LoadRing.boot_id, LoadRing.sequence, LoadRing.payload)
            .where(
                LoadRing.engine_id == due.engine_id,
                LoadRing.ordinal.in_(due.ordinals),
                ~LoadRing.sealed,  # finds them by the index of what is not sealed
            )
            .order_by(LoadRing.ordinal)
            .execution_options(yield_per=_ROWS_AT_A_TIME)
        )
        found: list[_RingFrame] = []
        for ordinal, boot_id, sequence, payload in rows:
            frame = self._cache.get(FrameKey(due.engine_id, boot_id, sequence))
            if frame is None:
                frame = _decoded(due.engine_id, ordinal, payload)
            found.append(_RingFrame(ordinal, frame))
        return found

    def _next_part(self, session: Session, due: Due) -> int:
        last = session.scalar(
            select(func.max(LoadChunk.part)).where(
                LoadChunk.engine_id == due.engine_id, LoadChunk.t0 == due.t0
            )
        )
        return 0 if last is None else last + 1


def earlier_parts(session: Session, engine_id: str, t0: int, before: int) -> list[Frame]:
    """Frames of a minute's parts below `before`; a damaged part is left out, and said so."""
    payloads = session.execute(
        select(LoadChunk.part, LoadChunk.payload).where(
            LoadChunk.engine_id == engine_id, LoadChunk.t0 == t0, LoadChunk.part < before
        )
    ).all()
    frames: list[Frame] = []
    for part, payload in payloads:
        try:
            frames += decode_chunk(payload)
        except CorruptChunkError:
            logger.exception("chunk %s/%s/%s is left out", engine_id, t0, part)
    return frames


def store_rollups(session: Session, engine_id: str, t0: int, frames: Sequence[Frame]) -> None:
    """Write the six 10 s sums, the minute's sum, and its layer rows."""
    rows: list[dict[str, Any]] = []
    minute = WindowSum()
    for start in range(t0, t0 + MINUTE, SLICE):
        inside = [f for f in frames if start <= f.header.started_unix_seconds < start + SLICE]
        window = sum_frames(engine_id, start, start + SLICE, inside)
        if window is not None:
            rows.append(rollup_row(window, SLICE))
            minute.merge(window)
    whole = minute.window(engine_id, t0, t0 + MINUTE)
    if whole is None:
        return
    rows.append(rollup_row(whole, MINUTE))
    session.execute(UPSERT_ROLLUP, rows)
    summaries = summarise(whole, MINUTE, t0)
    if summaries:
        session.execute(UPSERT_SUMMARY, summaries)


def rollup_row(window: EngineWindow, tier: int) -> dict[str, Any]:
    """The row of a window that is one interval of `tier`."""
    return {
        "engine_id": window.engine_id, "tier": tier, "t0": int(window.start),
        "frames": window.frames, "payload": encode_window(window),
    }  # fmt: skip


def tables_of(t0: int) -> list[tuple[str, int, int]]:
    """Where the rows of a minute go: (table, tier, t0)."""
    return [
        ("load_chunk", CHUNKS, t0),
        ("load_rollup", SLICE, t0),
        ("load_rollup", MINUTE, t0),
        ("layer_summary", MINUTE, t0),
    ]


def _decoded(engine_id: str, ordinal: int, payload: bytes) -> Frame | None:
    try:
        return decode(payload)
    except FrameError:
        logger.exception("ring frame %s/%s is damaged and is not sealed", engine_id, ordinal)
        return None
