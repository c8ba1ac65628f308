"""Sums over a span from stored rollups: coarse in the middle, fine at the edges."""

import logging
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from contract.frame_codec import Frame
from controlplane.errors import InvalidInputError
from controlplane.history.chunk_codec import CorruptChunkError
from controlplane.history.models import LoadRollup
from controlplane.history.summing import WindowSum
from controlplane.history.tiers import FRAMES, ROLLUPS, Span
from controlplane.history.window import EngineWindow
from controlplane.history.window_codec import decode_window

logger = logging.getLogger(__name__)

MAX_ROWS = 4000


@dataclass(frozen=True, slots=True)
class Covered:
    """A sum, the stored intervals behind it by tier, and what they span."""

    window: EngineWindow | None
    intervals: dict[int, int]
    span: Span


def newest_minute_end(session: Session, engine_id: str) -> float | None:
    """End of the newest sealed minute; None when there is none."""
    newest = session.scalar(
        select(func.max(LoadRollup.t0)).where(
            LoadRollup.engine_id == engine_id, LoadRollup.tier == 60
        )
    )
    return None if newest is None else float(newest + 60)


def cover(
    session: Session,
    engine_id: str,
    span: Span,
    finest: int,
    only: Collection[str] | None,
    unsealed: Iterable[Frame] = (),
) -> Covered:
    """The sum over the whole intervals of tier `finest` that touch the span, and `unsealed` frames.

    An interval that a coarse tier lacks (an hour not yet summed) is taken from finer ones. A
    damaged rollup is left out.

    Raises:
        InvalidInputError: more rows than one answer may read.
    """
    aligned = span.aligned(finest)
    rows = _chosen(session, engine_id, aligned, finest)
    if len(rows) > MAX_ROWS:
        raise InvalidInputError(
            f"the span needs {len(rows)} stored sums, one answer reads at most {MAX_ROWS}: "
            "ask for a shorter span",
            field="start", value=len(rows), bound=MAX_ROWS,
        )  # fmt: skip
    total = WindowSum()
    intervals: dict[int, int] = {}
    read: list[Span] = []
    for tier, t0, window in _read(session, engine_id, sorted(rows, key=lambda row: row[1]), only):
        total.merge(window)
        intervals[tier] = intervals.get(tier, 0) + 1
        read.append(Span(t0, t0 + tier))
    for frame in unsealed:
        total.add(frame)
        intervals[FRAMES] = intervals.get(FRAMES, 0) + 1
        began = frame.header.started_unix_seconds
        read.append(Span(began, began + frame.header.interval_seconds))
    if read:
        aligned = Span(min(piece.start for piece in read), max(piece.end for piece in read))
    return Covered(total.window(engine_id, aligned.start, aligned.end), intervals, aligned)


def rollups(
    session: Session, engine_id: str, span: Span, tier: int, only: Collection[str] | None
) -> Iterator[EngineWindow]:
    """Stored intervals of one tier inside the span, oldest first."""
    rows = [(tier, t0) for t0 in _listed(session, engine_id, tier, span)]
    for _, _, window in _read(session, engine_id, rows, only):
        yield window


def _chosen(session: Session, engine_id: str, span: Span, finest: int) -> list[tuple[int, int]]:
    """(tier, t0) of the intervals to sum: the coarsest that fit, none twice."""
    rows: list[tuple[int, int]] = []
    taken: list[Span] = []
    for tier in ROLLUPS:
        if tier < finest:
            break
        listed = _listed(session, engine_id, tier, span)
        fresh = [t0 for t0 in listed if not _overlaps(taken, Span(t0, t0 + tier))]
        rows += [(tier, t0) for t0 in fresh]
        taken = sorted(taken + [Span(t0, t0 + tier) for t0 in fresh], key=lambda piece: piece.start)
    return rows


def _listed(session: Session, engine_id: str, tier: int, span: Span) -> list[int]:
    return list(
        session.scalars(
            select(LoadRollup.t0)
            .where(
                LoadRollup.engine_id == engine_id,
                LoadRollup.tier == tier,
                LoadRollup.t0 >= span.start,
                LoadRollup.t0 <= span.end - tier,
            )
            .order_by(LoadRollup.t0)
        )
    )


def _overlaps(taken: list[Span], piece: Span) -> bool:
    low, high = 0, len(taken)
    while low < high:
        middle = (low + high) // 2
        if taken[middle].end <= piece.start:
            low = middle + 1
        else:
            high = middle
    return low < len(taken) and taken[low].start < piece.end


def _read(
    session: Session,
    engine_id: str,
    rows: list[tuple[int, int]],
    only: Collection[str] | None,
) -> Iterator[tuple[int, int, EngineWindow]]:
    for tier in ROLLUPS:
        wanted = [t0 for of, t0 in rows if of == tier]
        for first in range(0, len(wanted), 200):
            batch = wanted[first : first + 200]
            payloads = session.execute(
                select(LoadRollup.t0, LoadRollup.payload)
                .where(
                    LoadRollup.engine_id == engine_id,
                    LoadRollup.tier == tier,
                    LoadRollup.t0.in_(batch),
                )
                .order_by(LoadRollup.t0)
            )
            for t0, payload in payloads:
                try:
                    yield tier, t0, decode_window(payload, only=only)
                except CorruptChunkError:
                    logger.exception("rollup %s/%s/%s is left out", engine_id, tier, t0)
