"""Sums over a span from stored rollups: coarse in the middle, fine at the edges."""

import logging
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from contract.frame import FrameHeader
from contract.frame_stack import Stack
from controlplane.errors import InvalidInputError
from controlplane.history.chunk_codec import CorruptChunkError
from controlplane.history.hours import due_within
from controlplane.history.models import LoadRollup
from controlplane.history.observed import FIELD
from controlplane.history.summing import WindowSum
from controlplane.history.tiers import FRAMES, HOUR, MINUTE, ROLLUPS, Span
from controlplane.history.window import EngineWindow
from controlplane.history.window_codec import Rollup, checked_header, decode_rollup

logger = logging.getLogger(__name__)

MAX_ROWS = 4000
BATCH = 200


@dataclass(frozen=True, slots=True)
class Covered:
    """A sum, the stored intervals behind it by tier, and what they span."""

    window: EngineWindow | None
    intervals: dict[int, int]
    span: Span


def newest_minute_end(session: Session, engine_ids: Sequence[str]) -> float | None:
    """End of the newest sealed minute of any of the engines; None when there is none."""
    newest = session.scalar(
        select(func.max(LoadRollup.t0)).where(
            LoadRollup.engine_id.in_(engine_ids), LoadRollup.tier == 60
        )
    )
    return None if newest is None else float(newest + 60)


def cover(
    session: Session,
    engine_ids: Sequence[str],
    span: Span,
    finest: int,
    only: Collection[str] | None,
    unsealed: Mapping[str, Stack] | None = None,
) -> list[Covered]:
    """For each engine, the sum over the whole intervals of tier `finest` that touch the span.

    An interval that a coarse tier lacks (an hour not yet summed, or that has grown since) is taken
    from finer ones, minutes at least; `unsealed` frames are added. A damaged rollup is left out.
    Two statements a tier, and one an hour not yet summed, however many engines.

    Raises:
        InvalidInputError: more rows than one answer may read.
    """
    aligned = span.aligned(finest)
    chosen = _chosen(session, engine_ids, aligned, finest)
    if len(chosen) > MAX_ROWS:
        raise InvalidInputError(
            f"the span needs {len(chosen)} stored sums, one answer reads at most {MAX_ROWS}: "
            "ask for a shorter span",
            field="start", value=len(chosen), bound=MAX_ROWS,
        )  # fmt: skip
    sums = {engine_id: _Sum() for engine_id in engine_ids}
    for key, rollup in _read(session, chosen, only):
        try:
            sums[key.engine_id].add_rollup(key, rollup)
        except CorruptChunkError:
            logger.exception("rollup %s/%s/%s is left out", *key)
    for engine_id, stack in (unsealed or {}).items():
        sums[engine_id].add_stack(stack)
    return [found.covered(engine_id, aligned) for engine_id, found in sums.items()]


class _Key(NamedTuple):
    """What a rollup is stored under."""

    engine_id: str
    tier: int
    t0: int


class _Sum:
    """One engine's sum. Headers are checked twice in all: a first one, and the newest."""

    def __init__(self) -> None:
        self._total = WindowSum()
        self._intervals: dict[int, int] = {}
        self._start, self._end = math.inf, -math.inf
        self._header: FrameHeader | None = None
        self._newest: dict[str, Any] | None = None
        self._newest_started = -math.inf

    def add_rollup(self, key: _Key, rollup: Rollup) -> None:
        if self._header is None:
            self._header = checked_header(rollup.raw_header)
            self._newest_started = rollup.newest_started
        elif rollup.newest_started >= self._newest_started:
            self._newest, self._newest_started = rollup.raw_header, rollup.newest_started
        self._total.see_bounds(rollup.raw_header.get(FIELD))
        self._total.merge(rollup.window(self._header), rollup.topology)
        self._extend(key.tier, key.t0, key.t0 + key.tier)

    def add_stack(self, stack: Stack) -> None:
        self._settle_header()
        self._total.add_stack(stack)
        for header in stack.headers:
            began = header.started_unix_seconds
            self._extend(FRAMES, began, began + header.interval_seconds)

    def covered(self, engine_id: str, asked: Span) -> Covered:
        self._settle_header()
        span = Span(self._start, self._end) if self._intervals else asked
        window = self._total.window(engine_id, span.start, span.end)
        return Covered(window, self._intervals, span)

    def _settle_header(self) -> None:
        if self._newest is not None:
            self._total.header = checked_header(self._newest)
            self._newest = None

    def _extend(self, tier: int, start: float, end: float) -> None:
        self._intervals[tier] = self._intervals.get(tier, 0) + 1
        self._start, self._end = min(self._start, start), max(self._end, end)


def rollups(
    session: Session, engine_id: str, span: Span, tier: int, only: Collection[str] | None
) -> Iterator[EngineWindow]:
    """Stored intervals of one tier inside the span, oldest first."""
    keys = _listed(session, [engine_id], (tier,), span)
    for key, rollup in _read(session, sorted(keys, key=lambda key: key.t0), only):
        try:
            yield rollup.window()
        except CorruptChunkError:
            logger.exception("rollup %s/%s/%s is left out", *key)


def _chosen(session: Session, engine_ids: Sequence[str], span: Span, finest: int) -> list[_Key]:
    """The intervals to sum: the coarsest that fit, none twice."""
    tiers = tuple(tier for tier in ROLLUPS if tier >= finest)
    due = due_within(session, engine_ids, span)
    listed = [
        key for key in _listed(session, engine_ids, tiers, span)
        if not (key.tier == HOUR and (key.engine_id, key.t0) in due)
    ]  # fmt: skip
    if finest == HOUR:
        listed += _minutes_of(session, due, span)
    chosen: list[_Key] = []
    taken: set[tuple[str, int, int]] = set()
    for key in sorted(listed, key=lambda key: -key.tier):
        # Tiers divide one another, so an interval lies inside a coarser one or outside of it.
        coarser = (tier for tier in tiers if tier > key.tier)
        if any((key.engine_id, tier, key.t0 - key.t0 % tier) in taken for tier in coarser):
            continue
        taken.add(key)
        chosen.append(key)
    return chosen


def _minutes_of(session: Session, due: Collection[tuple[str, int]], span: Span) -> list[_Key]:
    """The minutes of hours that are not summed yet."""
    found: list[_Key] = []
    for t0 in sorted({t0 for _, t0 in due if span.start <= t0 < span.end}):
        engines = [engine_id for engine_id, hour in due if hour == t0]
        found += _listed(session, engines, (MINUTE,), Span(t0, t0 + HOUR))
    return found


def _listed(
    session: Session, engine_ids: Sequence[str], tiers: Sequence[int], span: Span
) -> list[_Key]:
    rows = session.execute(
        select(LoadRollup.engine_id, LoadRollup.tier, LoadRollup.t0).where(
            LoadRollup.engine_id.in_(engine_ids),
            LoadRollup.tier.in_(tiers),
            LoadRollup.t0 >= span.start,
            LoadRollup.t0 + LoadRollup.tier <= span.end,
            LoadRollup.t0 < span.end,
        )
    )
    return [_Key(*row) for row in rows]


def _read(
    session: Session, keys: Sequence[_Key], only: Collection[str] | None
) -> Iterator[tuple[_Key, Rollup]]:
    """Rollups by key, in the order of the keys within a batch's tier and start."""
    for tier in sorted({key.tier for key in keys}, reverse=True):
        wanted = [key for key in keys if key.tier == tier]
        for first in range(0, len(wanted), BATCH):
            batch = set(wanted[first : first + BATCH])
            rows = session.execute(
                select(LoadRollup.engine_id, LoadRollup.tier, LoadRollup.t0, LoadRollup.payload)
                .where(
                    LoadRollup.engine_id.in_({key.engine_id for key in batch}),
                    LoadRollup.tier == tier,
                    LoadRollup.t0.in_({key.t0 for key in batch}),
                )
                .order_by(LoadRollup.t0)
            )
            for engine_id, _, t0, payload in rows:
                key = _Key(engine_id, tier, t0)
                if key not in batch:
                    continue
                try:
                    yield key, decode_rollup(payload, only=only)
                except CorruptChunkError:
                    logger.exception("rollup %s/%s/%s is left out", *key)
