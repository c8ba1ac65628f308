"""Counts drawn around expected ones: integers whose rows have an exact sum.

Small means are drawn from Poisson, large ones from a normal with the same variance; conditioning on
the row sum takes the multinomial's covariance: x - p·(Σx - n). Cumulative rounding keeps the sums.
"""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]
NORMAL_FROM = 12.0
"""Mean count of a cell from which the normal replaces Poisson."""


def scatter(
    generator: np.random.Generator,
    expected: Floats,
    *,
    shrink: float = 1.0,
    noise: Floats | None = None,
) -> Floats:
    """Independent counts around `expected`, not yet integers.

    Args:
        generator: of the randomness.
        expected: any shape, ≥ 0.
        shrink: variance over mean, below 1 for sampling without replacement: (E - k)/(E - 1).
        noise: standard normal noise to use, so that two draws share their luck.
    """
    if noise is None and expected.size and float(expected.mean()) < NORMAL_FROM:
        return generator.poisson(expected).astype(np.float64)
    luck = generator.standard_normal(expected.shape, dtype=np.float32) if noise is None else noise
    drawn: Floats = expected + np.sqrt(shrink * expected) * luck
    return np.maximum(0.0, drawn)


def fit_rows(drawn: Floats, expected: Floats, totals: Floats) -> Counts:
    """Integers near `drawn` whose sums over the last axis are exactly `totals`.

    Args:
        drawn: [..., E], ≥ 0.
        expected: [..., E], decides who takes the correction.
        totals: [...], whole numbers.
    """
    level = expected / np.maximum(expected.sum(axis=-1, keepdims=True), 1e-300)
    shifted = np.maximum(0.0, drawn - level * (drawn.sum(axis=-1) - totals)[..., None])
    mass = shifted.sum(axis=-1, keepdims=True)
    scaled = shifted * (totals[..., None] / np.maximum(mass, 1e-300))
    return whole(scaled, totals)


def whole(values: Floats, totals: Floats | Counts) -> Counts:
    """Round along the last axis so that each row's sum is exactly its total."""
    steps = np.rint(np.cumsum(values, axis=-1)).astype(np.int64)
    steps[..., -1] = totals
    return np.maximum(0, np.diff(np.minimum(steps, steps[..., -1:]), axis=-1, prepend=0))


def split(
    generator: np.random.Generator,
    expected: Floats,
    counts: Counts,
    *,
    noise: Floats | None = None,
) -> Counts:
    """Split `counts` [...] over the first axis of `expected` [B, ...]; sums are exact."""
    drawn = scatter(generator, expected, noise=noise)
    moved = np.moveaxis(drawn, 0, -1)
    level = np.moveaxis(expected, 0, -1)
    return np.moveaxis(fit_rows(moved, level, counts.astype(np.float64)), -1, 0)
