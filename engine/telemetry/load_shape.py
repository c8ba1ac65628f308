"""Shape of expert load: how uneven counts are, and how much of that is sampling noise.

Formulas: `count` n_e of one layer over a window, mean λ = Σn/E. All functions work on the last axis
and give 0 where nothing was counted.
"""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

TOP_SHARE = 0.16
"""Share of experts that `top_share` looks at."""


def cv(counts: Ints) -> Floats:
    """Population standard deviation over mean."""
    mean = counts.mean(axis=-1)
    return _ratio(counts.std(axis=-1), mean)


def expert_noise(assignments: Ints, experts: int, top_k: int) -> Floats:
    """Squared CV that uniform top-k routing alone has: (E − k) / (T·k); `assignments` is T·k."""
    return _ratio(np.full(assignments.shape, float(experts - top_k)), assignments)


def card_noise(assignments: Ints, experts: int, top_k: int, ranks: int) -> Floats:
    """The same at card level: (M − 1)(E − k) / (T·k·(E − 1))."""
    scale = (ranks - 1) * (experts - top_k) / max(1, experts - 1)
    return _ratio(np.full(assignments.shape, scale), assignments)


def debiased_cv(raw: Floats, noise: Floats) -> Floats:
    """√max(0, CV² − noise)."""
    return np.sqrt(np.maximum(0.0, raw**2 - noise))


def max_over_mean(counts: Ints) -> Floats:
    """Largest count over the mean; 1 is perfectly even."""
    return _ratio(counts.max(axis=-1).astype(np.float64), counts.mean(axis=-1))


def top_share(counts: Ints, share: float = TOP_SHARE) -> Floats:
    """Part of all assignments on the busiest `share` of experts (rounded, at least one)."""
    top = max(1, round(share * counts.shape[-1]))
    busiest = np.partition(counts, counts.shape[-1] - top, axis=-1)[..., -top:]
    return _ratio(busiest.sum(axis=-1).astype(np.float64), counts.sum(axis=-1))


def psi(counts: Ints, reference: Floats) -> Floats:
    """Population stability index Σ(p − q)·ln(p/q) of counts against reference counts.

    Half a count is added to every cell on both sides, so that an unseen expert stays finite.
    """
    p = counts + 0.5
    q = reference + 0.5
    p = p / p.sum(axis=-1, keepdims=True)
    q = q / q.sum(axis=-1, keepdims=True)
    return np.asarray(((p - q) * np.log(p / q)).sum(axis=-1), dtype=np.float64)


def _ratio(numerator: Floats, denominator: npt.NDArray[np.generic]) -> Floats:
    below = np.asarray(denominator, dtype=np.float64)
    return np.divide(numerator, below, out=np.zeros_like(below), where=below > 0)
