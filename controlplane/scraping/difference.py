"""What happened between two scrapes: counters differenced series by series. Pure.

A series began anew if it says so by a later `_created`, if its process did, if its count went down
(a histogram's count, never one bucket), or if a histogram has other buckets: all that it shows
happened since. A series that was not there before and appears later began at zero. One that is
absent for a while is held against its last known value when it is back, so nothing counts twice.

Buckets that disagree with their count (one fell, or grew by more) are no restart: the interval has
as many observations as the count grew by, and the buckets are held within that. What had to be held
is named as a problem.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from controlplane.scraping.exposition import Buckets, Reading, SeriesKey

MAX_KEPT = 20_000


@dataclass(frozen=True, slots=True)
class Delta:
    """Counts of an interval: histograms by what they measure (a list of series each), counters.

    `problems` says which series contradict themselves.
    """

    histograms: dict[str, list[Buckets]]
    counters: dict[str, float]
    problems: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Known:
    """The last value of every series of one engine; `since` gives what is new."""

    histograms: dict[SeriesKey, Buckets] = field(default_factory=dict)
    counters: dict[SeriesKey, float] = field(default_factory=dict)
    created: dict[SeriesKey, float] = field(default_factory=dict)
    process_started: float | None = None

    def remember(self, reading: Reading) -> None:
        """Keep a reading's values; series that churn beyond the bound begin anew."""
        if len(self.histograms) + len(self.counters) > MAX_KEPT:
            self.histograms.clear()
            self.counters.clear()
            self.created.clear()
        self.histograms.update(reading.histograms)
        self.counters.update(reading.counters)
        self.created.update(reading.created)
        if reading.process_started is not None:
            self.process_started = reading.process_started

    def since(self, reading: Reading) -> Delta:
        """What a reading adds to what is known."""
        delta = Delta({}, {})
        for key, now in reading.histograms.items():
            added, agrees = self._added(key, now, reading)
            delta.histograms.setdefault(key[0], []).append(added)
            if not agrees:
                delta.problems.append(f"{key[0]} has buckets that disagree with its count")
        for key, value in reading.counters.items():
            delta.counters[key[0]] = delta.counters.get(key[0], 0.0) + self._grown(
                key, value, reading
            )
        return delta

    def _grown(self, key: SeriesKey, now: float, reading: Reading) -> float:
        before = self.counters.get(key, 0.0)
        anew = self._began_anew(key, reading, fell=now < before)
        return now if anew else max(0.0, now - before)

    def _added(self, key: SeriesKey, now: Buckets, reading: Reading) -> tuple[Buckets, bool]:
        """A histogram's growth, and whether its buckets agree with its count."""
        before = self.histograms.get(key)
        if before is None or before.bounds != now.bounds:
            return now, True
        if self._began_anew(key, reading, fell=now.count < before.count):
            return now, True
        raw = [b - a for a, b in zip(before.counts, now.counts, strict=True)]
        counts = _held(raw)
        total = now.total - before.total
        return Buckets(now.bounds, counts, total if total >= 0 else math.nan), list(counts) == raw

    def _began_anew(self, key: SeriesKey, reading: Reading, *, fell: bool) -> bool:
        """A series that says when it began is believed, whatever its count does."""
        before, now = self.created.get(key), reading.created.get(key)
        if before is not None and now is not None:
            return now > before
        started, restarted = self.process_started, reading.process_started
        # The same process may still make its counters anew: vLLM does when it scales.
        return fell or (started is not None and restarted is not None and restarted > started)


def _held(raw: Sequence[int]) -> tuple[int, ...]:
    """Cumulative growth made to be cumulative, between 0 and what the count grew by."""
    most = max(0, raw[-1])
    return (*accumulate((min(most, max(0, grown)) for grown in raw[:-1]), max), most)
