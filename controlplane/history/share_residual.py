"""Counts over time as residuals against each series' running share of its row. Pure, lossless.

In a steady row the count of expert e is multinomial: its expectation is the row's total times e's
share, and all that a codec must keep is the noise around it. The share is learnt from the frames
before, so nothing is stored for it: prediction_t = total_t × Σ_{s<t} x_s / Σ_{s<t} total_s, rounded
in IEEE doubles, so that the decoder repeats it exactly. Learning the share from t frames costs
about log2(t)/2 bits a series, once per chunk. `trimtab bench codec` measures the distance to the
entropy.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Unsigned = npt.NDArray[np.unsignedinteger[Any]]
Floats = npt.NDArray[np.float64]
Residuals = npt.NDArray[np.int32]
_EXACT = 2**53
_LARGEST_TOTAL = 2**31


def fits(totals: Unsigned) -> bool:
    """Whether, with these row totals, predictions are exact in a double and residuals fit i32.

    A prediction never exceeds its row's total, so a residual lies within it.
    """
    return int(totals.max(initial=0)) < _LARGEST_TOTAL and bool(
        totals.sum(dtype=np.float64) < _EXACT
    )


def residuals(counts: Unsigned, totals: Unsigned) -> Residuals:
    """[T, rows, E] counts and their row totals [T, rows] → [T-1, rows, E] of the later frames.

    The first frame is not predicted; store it as it is.
    """
    out = np.empty((counts.shape[0] - 1, *counts.shape[1:]), dtype=np.int32)
    summed, seen = counts[0].astype(np.float64), totals[0].astype(np.float64)
    for t in range(1, counts.shape[0]):
        np.subtract(
            counts[t], _predicted(totals[t], summed, seen), out=out[t - 1], casting="unsafe"
        )
        summed += counts[t]
        seen += totals[t]
    return out


def restore(first: Unsigned | Ints, totals: Unsigned | Ints, residual: Residuals) -> Ints:
    """The inverse: first frame [rows, E], totals [T, rows], residuals [T-1, rows, E] → counts."""
    counts = np.empty((totals.shape[0], *first.shape), dtype=np.int64)
    counts[0] = first
    summed, seen = first.astype(np.float64), totals[0].astype(np.float64)
    for t in range(1, totals.shape[0]):
        np.add(
            residual[t - 1], _predicted(totals[t], summed, seen), out=counts[t], casting="unsafe"
        )
        summed += counts[t]
        seen += totals[t]
    return counts


def _predicted(total: Unsigned | Ints, summed: Floats, seen: Floats) -> Floats:
    """Total × summed / seen, rounded to even; 0 where the row has been empty so far.

    One multiplication and one rounding in IEEE doubles: every machine gets the same.
    """
    per_unit = total / np.maximum(seen, 1.0)
    return np.rint(summed * per_unit[:, None])
