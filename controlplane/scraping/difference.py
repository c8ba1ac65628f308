"""What happened between two scrapes: counters differenced series by series. Pure.

A counter that went down, or a histogram with other buckets, began anew: all that it shows happened
since. A series that was not there before and appears later began at zero. One that is absent for
a while is held against its last known value when it is back, so nothing counts twice.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from controlplane.scraping.exposition import Buckets, Reading, SeriesKey

MAX_KEPT = 20_000


@dataclass(frozen=True, slots=True)
class Delta:
    """Counts of an interval: histograms by what they measure (a list of series each), counters."""

    histograms: dict[str, list[Buckets]]
    counters: dict[str, float]


@dataclass(slots=True)
class Known:
    """The last value of every series of one engine; `since` gives what is new."""

    histograms: dict[SeriesKey, Buckets] = field(default_factory=dict)
    counters: dict[SeriesKey, float] = field(default_factory=dict)

    def remember(self, reading: Reading) -> None:
        """Keep a reading's values; series that churn beyond the bound begin anew."""
        if len(self.histograms) + len(self.counters) > MAX_KEPT:
            self.histograms.clear()
            self.counters.clear()
        self.histograms.update(reading.histograms)
        self.counters.update(reading.counters)

    def since(self, reading: Reading) -> Delta:
        """What a reading adds to what is known."""
        histograms: dict[str, list[Buckets]] = {}
        for key, now in reading.histograms.items():
            histograms.setdefault(key[0], []).append(_added(self.histograms.get(key), now))
        counters: dict[str, float] = {}
        for key, value in reading.counters.items():
            counters[key[0]] = counters.get(key[0], 0.0) + _grown(self.counters, key, value)
        return Delta(histograms, counters)


def _grown(known: Mapping[SeriesKey, float], key: SeriesKey, now: float) -> float:
    before = known.get(key, 0.0)
    return now - before if now >= before else now


def _added(before: Buckets | None, now: Buckets) -> Buckets:
    if before is None or before.bounds != now.bounds:
        return now
    counts = [b - a for a, b in zip(before.counts, now.counts, strict=True)]
    # Scraped while it is written, a bucket may lag: counts stay cumulative, or it is a restart.
    if any(count < 0 for count in counts) or counts != sorted(counts):
        return now
    total = now.total - before.total
    return Buckets(now.bounds, tuple(counts), total if total >= 0 else math.nan)
