"""Counts drawn around expected ones: integers whose rows have an exact sum.

Small means are drawn from Poisson, large ones from a normal with the same variance; conditioning on
the row sum takes the multinomial's covariance: x - p·(Σx - n). Cumulative rounding keeps the sums.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.floating[Any]]
Counts = npt.NDArray[np.int64]
NORMAL_FROM = 12.0
"""Mean count of a cell from which the normal replaces Poisson."""
_TINY = 1e-30


def scatter(
    generator: np.random.Generator,
    expected: Floats,
    *,
    shrink: float = 1.0,
    noise: Floats | None = None,
) -> Floats:
    """Independent counts around `expected`, not yet integers, in the precision of `expected`.

    Args:
        generator: of the randomness.
        expected: any shape, ≥ 0.
        shrink: variance over mean, below 1 for sampling without replacement: (E - k)/(E - 1).
        noise: standard normal noise to use, so that two draws share their luck.
    """
    if noise is None and expected.size and float(expected.mean()) < NORMAL_FROM:
        return generator.poisson(expected).astype(expected.dtype)
    luck = generator.standard_normal(expected.shape, dtype=np.float32) if noise is None else noise
    drawn = expected * expected.dtype.type(shrink)
    np.sqrt(drawn, out=drawn)
    drawn *= luck
    drawn += expected
    return np.maximum(drawn, 0.0, out=drawn)


def fit(drawn: Floats, expected: Floats, totals: Floats | Counts, *, axis: int = -1) -> Counts:
    """Integers near `drawn` whose sums over an axis are exactly `totals`.

    Args:
        drawn: ≥ 0; it is written over.
        expected: of the same shape, decides who takes the correction.
        totals: whole numbers, the shape without the axis.
        axis: that is summed over.
    """
    wanted = np.expand_dims(totals, axis).astype(drawn.dtype)
    over = drawn.sum(axis=axis, keepdims=True) - wanted
    drawn -= expected * (over / np.maximum(expected.sum(axis=axis, keepdims=True), _TINY))
    np.maximum(drawn, 0.0, out=drawn)
    drawn *= wanted / np.maximum(drawn.sum(axis=axis, keepdims=True), _TINY)
    return whole(drawn, totals, axis=axis)


def whole(values: Floats, totals: Floats | Counts, *, axis: int = -1) -> Counts:
    """Round so that the sums over an axis are exactly the totals.

    Cumulative sums are rounded, so a cell is off by less than one: in 32-bit floats for totals up
    to some millions.
    """
    steps = np.moveaxis(np.cumsum(values, axis=axis), axis, 0)
    np.rint(steps, out=steps)
    counts = np.empty_like(steps, dtype=np.int64)
    counts[:] = steps
    counts[-1] = totals
    np.minimum(counts, counts[-1], out=counts)
    counts[1:] -= counts[:-1].copy()
    return np.moveaxis(np.maximum(counts, 0, out=counts), 0, axis)


def split(
    generator: np.random.Generator,
    expected: Floats,
    counts: Counts,
    *,
    noise: Floats | None = None,
) -> Counts:
    """Split `counts` [...] over the first axis of `expected` [B, ...]; sums are exact."""
    return fit(scatter(generator, expected, noise=noise), expected, counts, axis=0)
