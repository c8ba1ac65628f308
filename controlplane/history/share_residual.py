"""Counts over time as residuals against each series' running share of its row. Pure, lossless.

In a steady row the count of expert e is multinomial: its expectation is the row's total times e's
share, and all that a codec must keep is the noise around it. The share is learnt from the frames
before, so nothing is stored for it: prediction_t = total_t × Σ_{s<t} x_s / Σ_{s<t} total_s, rounded
in IEEE arithmetic, so that the decoder repeats it exactly. Learning the share from t frames costs
about log2(t)/2 bits a series, once per chunk. `trimtab bench codec` measures the distance to the
entropy.

Single precision holds sums up to 2^24 and takes a third of the time; double holds them up to 2^53.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Unsigned = npt.NDArray[np.unsignedinteger[Any]]
Floats = npt.NDArray[np.floating[Any]]
Residuals = npt.NDArray[np.signedinteger[Any]]
Precision = type[np.float32] | type[np.float64]
_EXACT_SINGLE, _EXACT_DOUBLE = 2**24, 2**53
_LARGEST_TOTAL = 2**31
_NARROW = 2**14
"""Residuals below it still fit 16 bits when they are doubled."""


def precision_for(counts: Unsigned, totals: Unsigned) -> Precision | None:
    """The least in which [T, rows, E] counts are predicted exactly; None where none is enough.

    A prediction never exceeds its row's total [T, rows], so a residual lies within 32 bits.
    """
    if int(totals.max(initial=0)) >= _LARGEST_TOTAL:
        return None
    if totals.sum(dtype=np.float64) >= _EXACT_DOUBLE:
        return None
    largest = int(counts.max(initial=0))
    return np.float32 if largest * len(counts) < _EXACT_SINGLE else np.float64


def residuals(counts: Unsigned, totals: Unsigned, precision: Precision) -> Residuals:
    """[T, rows, E] counts and their row totals [T, rows] → [T-1, rows, E] of the later frames.

    The first frame is not predicted; store it as it is. 16 bits wide where that surely suffices.
    """
    held = np.int16 if _bound(counts, totals) < _NARROW else np.int32
    out = np.empty((counts.shape[0] - 1, *counts.shape[1:]), dtype=held)
    per_unit = _per_unit(totals, precision)
    summed = counts[0].astype(precision)
    present, predicted = np.empty_like(summed), np.empty_like(summed)
    for t in range(1, counts.shape[0]):
        _predict(summed, per_unit[t - 1], predicted)
        present[...] = counts[t]
        np.subtract(present, predicted, out=predicted)
        out[t - 1] = predicted
        summed += present
    return out


def restore(
    first: Unsigned | Ints, totals: Unsigned | Ints, residual: Residuals, precision: Precision
) -> Ints:
    """The inverse: first frame [rows, E], totals [T, rows], residuals [T-1, rows, E] → counts."""
    counts = np.empty((totals.shape[0], *first.shape), dtype=np.int64)
    counts[0] = first
    per_unit = _per_unit(totals, precision)
    summed: Floats = first.astype(precision)
    predicted = np.empty_like(summed)
    for t in range(1, totals.shape[0]):
        _predict(summed, per_unit[t - 1], predicted)
        predicted += residual[t - 1]
        counts[t] = predicted
        summed += predicted
    return counts


def relative_noise(counts: Unsigned, totals: Unsigned) -> float:
    """The sum of absolute residuals over that of the counts that are predicted. Rounds nothing."""
    values = counts.astype(np.float64)
    predicted = np.cumsum(values[:-1], axis=0) * _per_unit(totals, np.float64)[:, :, None]
    predicted -= values[1:]
    return float(np.abs(predicted).sum() / max(values[1:].sum(), 1.0))


def _per_unit(totals: Unsigned | Ints, precision: Precision) -> Floats:
    """[T-1, rows]: the total of each later frame, over the sum of those before it."""
    seen = np.cumsum(totals[:-1], axis=0, dtype=np.float64)
    per_unit: Floats = (totals[1:] / np.maximum(seen, 1.0)).astype(precision)
    return per_unit


def _predict(summed: Floats, per_unit: Floats, into: Floats) -> None:
    """Total × summed / seen, rounded to even; 0 where the row has been empty so far.

    One multiplication and one rounding in IEEE arithmetic: every machine gets the same.
    """
    np.multiply(summed, per_unit[:, None], out=into)
    np.rint(into, out=into)


def _bound(counts: Unsigned, totals: Unsigned) -> float:
    """What no residual exceeds.

    A share learnt from several frames is at most that of the frame in which it was largest, so a
    prediction is at most the largest count times how far the totals of its row lie apart.
    """
    present = np.where(totals, totals, np.iinfo(totals.dtype).max).min(axis=0)
    apart = (totals.max(axis=0) / present).max(initial=1.0)
    return float(counts.max(initial=0)) * float(apart) + 1.0
