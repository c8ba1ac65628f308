"""Another engine's buckets as cells of our bounds, and where those are exact. Pure.

The cumulative count at one of our bounds is exact where the other engine has that bound too.
Between two of its bounds it is interpolated, linear inside the bucket and rounded down; above its
last finite bound nothing is known, so all of that stays above ours.
"""

import math
from collections.abc import Sequence

import numpy as np

from contract.frame_codec import Counts
from controlplane.scraping.exposition import Buckets

LARGEST = 2**32 - 1
_SAME = 1e-9


def cells_of(series: Sequence[Buckets], bounds: Sequence[float]) -> tuple[Counts, list[float]]:
    """Cells [len(bounds) + 1] of all series together, and the bounds that are exact in each."""
    cells = np.zeros(len(bounds) + 1, dtype=np.int64)
    for buckets in series:
        below = [0, *(_below(buckets, bound) for bound in bounds), buckets.count]
        cells += np.diff(below)
    exact = [
        bound for bound in bounds
        if all(_find(buckets, bound) is not None for buckets in series)
    ]  # fmt: skip
    return np.minimum(cells, LARGEST).astype(np.uint32), exact


def _find(buckets: Buckets, bound: float) -> int | None:
    """The index of a bound, also when it was written with fewer digits."""
    for index, own in enumerate(buckets.bounds):
        if math.isclose(own, bound, rel_tol=_SAME):
            return index
    return None


def _below(buckets: Buckets, bound: float) -> int:
    """Observations at or under one of our bounds: exact, or interpolated."""
    index = _find(buckets, bound)
    if index is not None:
        return buckets.counts[index]
    above = next((i for i, own in enumerate(buckets.bounds) if own > bound), None)
    if above is None:
        return buckets.counts[-2] if buckets.bounds else 0
    low = buckets.bounds[above - 1] if above else 0.0
    before = buckets.counts[above - 1] if above else 0
    high = buckets.bounds[above]
    part = (bound - low) / (high - low) if high > low else 0.0
    return before + math.floor(part * (buckets.counts[above] - before))
