"""χ² of expert counts against reference shares, its normal score, and its effect size.

With k distinct experts a token, counts vary less than multinomial ones: Pearson's sum is scaled by
(E−1)/(E−k). The reference is itself an estimate (factor 1 + N/N_ref), and tokens of one sequence
route alike (design effect φ, measured between buckets). Formulas: reference, governance § 8.3.
"""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def pearson(counts: Floats, shares: Floats, *, top_k: int, reference_total: Floats) -> Floats:
    """χ² over the last axis: counts [..., L, E], shares [L, E], reference totals [L] → [..., L].

    Under no change it has E − 1 degrees of freedom, before the design effect.
    """
    experts = counts.shape[-1]
    total = counts.sum(axis=-1)
    expected = total[..., None] * shares
    raw = ((counts - expected) ** 2 / expected).sum(axis=-1)
    distinct = (experts - 1) / max(1, experts - top_k)
    scaled: Floats = raw * distinct / (1.0 + total / reference_total)
    return scaled


def normal_score(chi_square: Floats, freedom: int) -> Floats:
    """Wilson-Hilferty: a χ² with `freedom` degrees as a standard normal score."""
    spread = 2.0 / (9.0 * freedom)
    score: Floats = (np.cbrt(chi_square / freedom) - 1.0 + spread) / np.sqrt(spread)
    return score


def design_effect(bucket_counts: Floats, top_k: int) -> Floats:
    """φ ≥ 1 by layer, float64 [L]: variance between buckets over that of independent tokens.

    Args:
        bucket_counts: [B, L, E], at least two buckets with counts in every layer.
        top_k: experts a token.
    """
    buckets, _, experts = bucket_counts.shape
    shares = bucket_counts.sum(axis=0)
    shares = np.maximum(shares, 0.5)
    shares = shares / shares.sum(axis=1, keepdims=True)
    totals = bucket_counts.sum(axis=2)
    raw = (bucket_counts**2 / shares).sum(axis=2) / totals - totals
    distinct = (experts - 1) / max(1, experts - top_k)
    effect: Floats = distinct * raw.sum(axis=0) / ((buckets - 1) * (experts - 1))
    return np.maximum(1.0, effect)


def cusum(scores: Floats, *, kappa: float, ceiling: float) -> Floats:
    """One-sided CUSUM over the first axis: scores [W, L] → level after the last window [L].

    The level is held at `ceiling`, so that a long change is forgotten in bounded time.
    """
    level: Floats = np.zeros(scores.shape[1:])
    for score in scores:
        level = np.clip(level + score - kappa, 0.0, ceiling)
    return level


def stability_index(
    counts: Floats, shares: Floats, *, reference_total: Floats, effect: Floats
) -> tuple[Floats, Floats]:
    """Population stability index by layer less its noise floor, and its standard deviation, [L].

    Floor: φ·(E−1)·(1/N + 1/N_ref); the deviation is that of a noncentral χ² of the same mean.
    """
    experts = counts.shape[-1]
    smooth = counts + 0.5
    total = counts.sum(axis=-1)
    seen = smooth / smooth.sum(axis=-1, keepdims=True)
    raw = ((seen - shares) * np.log(seen / shares)).sum(axis=-1)
    unit = effect * (1.0 / total + 1.0 / reference_total)
    value = raw - unit * (experts - 1)
    spread = unit * np.sqrt(2.0 * (experts - 1) + 4.0 * np.maximum(value, 0.0) / unit)
    return value, spread
