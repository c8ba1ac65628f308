"""Counts over time as residuals against each series' running share of its row. Pure, lossless.

In a steady row the count of expert e is multinomial: its expectation is the row's total times e's
share, and all that a codec must keep is the noise around it. The share is learnt from the frames
before, so nothing is stored for it: prediction_t = total_t × Σ_{s<t} x_s / Σ_{s<t} total_s, in
integer arithmetic, so that the decoder repeats it exactly. Learning the share from t frames costs
about log2(t)/2 bits a series, once per chunk. `trimtab bench codec` measures the distance to the
entropy.
"""

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
_MAX_PRODUCT = 2**62


def fits(counts: Ints) -> bool:
    """Whether the products of the prediction stay inside 63 bits."""
    totals = counts.sum(axis=-1)
    largest_total = int(totals.max(initial=0))
    largest_sum = int(counts.sum(axis=0).max(initial=0))
    return 2 * largest_total * max(largest_sum, 1) + int(totals.sum(axis=0).max(initial=0)) < (
        _MAX_PRODUCT
    )


def residuals(counts: Ints) -> tuple[Ints, Ints]:
    """[T, rows, E] counts → row totals [T, rows] and residuals [T-1, rows, E] of the later frames.

    The first frame is not predicted; store it as it is.
    """
    totals = counts.sum(axis=-1)
    out = np.empty((counts.shape[0] - 1, *counts.shape[1:]), dtype=np.int64)
    summed, seen = counts[0].copy(), totals[0].copy()
    for t in range(1, counts.shape[0]):
        out[t - 1] = counts[t] - _predicted(totals[t], summed, seen)
        summed += counts[t]
        seen += totals[t]
    return totals, out


def restore(first: Ints, totals: Ints, residual: Ints) -> Ints:
    """The inverse: first frame [rows, E], totals [T, rows], residuals [T-1, rows, E] → counts."""
    counts = np.empty((totals.shape[0], *first.shape), dtype=np.int64)
    counts[0] = first
    summed, seen = first.copy(), totals[0].copy()
    for t in range(1, totals.shape[0]):
        counts[t] = residual[t - 1] + _predicted(totals[t], summed, seen)
        summed += counts[t]
        seen += totals[t]
    return counts


def _predicted(total: Ints, summed: Ints, seen: Ints) -> Ints:
    """Total × summed / seen, rounded half up; 0 where the row has been empty so far."""
    divisor = 2 * np.maximum(seen, 1)[:, None]
    predicted: Ints = (2 * total[:, None] * summed + seen[:, None]) // divisor
    return predicted
