"""The stored counts behind long burn tiers and error budgets: read once, then minute by minute.

Minutes for the last one to two hours, hours before: a window of six hours and more loses nothing
that its burn would show. Late frames reach the counts with their hour.
"""

import math
import threading
from dataclasses import dataclass

from controlplane.history.history import History
from controlplane.history.tiers import HOUR, MINUTE, Span
from controlplane.history.window import EngineWindow
from controlplane.slo.older import ARRAYS, NOTHING, OlderCounts, counts_of

MINUTES_SECONDS = HOUR
"""Counted by the minute at least; by then the hour before is summed."""


@dataclass(frozen=True, slots=True)
class _Kept:
    """What is known of an engine: hours up to `hours_end`, then minutes up to `minutes_end`."""

    hours: OlderCounts = NOTHING
    minutes: OlderCounts = NOTHING
    hours_end: float = -math.inf
    minutes_end: float = -math.inf


class StoredCounts:
    """Counts of every engine's sealed past. Safe to use from any thread."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._lock = threading.Lock()
        self._kept: dict[str, _Kept] = {}

    def before(self, engine_id: str, until: float, seconds: float) -> OlderCounts:
        """The counts of [until - seconds, until), unix seconds, as far as whole minutes are stored.

        Two threads that ask for the same engine at once may both read; both give the same.
        """
        with self._lock:
            kept = self._kept.get(engine_id, _Kept())
        minutes_end = math.floor(until / MINUTE) * MINUTE
        if minutes_end < kept.minutes_end:  # the engine's clock went back
            kept = _Kept()
        hours_end = math.floor((until - MINUTES_SECONDS) / HOUR) * HOUR
        oldest = math.floor((until - seconds) / HOUR) * HOUR
        if minutes_end > kept.minutes_end:
            hours = self._hours(engine_id, max(oldest, kept.hours_end), hours_end)
            minutes = self._windows(
                engine_id, max(hours_end, kept.minutes_end), minutes_end, tier=MINUTE
            )
            kept = _Kept(
                kept.hours.since(oldest).then(counts_of(hours)),
                kept.minutes.since(hours_end).then(counts_of(minutes)), hours_end, minutes_end,
            )  # fmt: skip
            with self._lock:
                self._kept[engine_id] = kept
        return kept.hours.then(kept.minutes)

    def forget(self, engine_id: str) -> None:
        """The engine is gone."""
        with self._lock:
            self._kept.pop(engine_id, None)

    def _hours(self, engine_id: str, start: float, end: float) -> list[EngineWindow]:
        """Each hour's sum, or its minutes where it has none: a plane that was away sums later."""
        found = self._windows(engine_id, start, end, tier=HOUR)
        at = start
        for summed in (*found, None):
            until = end if summed is None else summed.start
            found += self._windows(engine_id, at, until, tier=MINUTE)
            at = until + HOUR
        return sorted(found, key=lambda window: window.start)

    def _windows(
        self, engine_id: str, start: float, end: float, *, tier: int
    ) -> list[EngineWindow]:
        if start >= end:
            return []
        return list(self._history.each_rollup(engine_id, Span(start, end), tier, only=ARRAYS))
