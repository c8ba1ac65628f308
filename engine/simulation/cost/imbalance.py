"""Load of the busiest rank over the mean, for a planned placement of skewed experts.

Popularity is lognormal with a given coefficient of variation (the form that fits the recorded
counts, see `engine.simulation.popularity`); without redundancy experts lie in order, with it they
lie where the EPLB balancer puts them.
"""

import numpy as np
import numpy.typing as npt

from engine.parallel.placement import linear
from engine.parallel.rebalance import rebalance

Floats = npt.NDArray[np.float64]
_LAYERS = 6
_BALANCED_LAYERS = 1
"""The balancer is exact arithmetic on loads, and slow at 288 slots: its result varies little."""


def lognormal_shares(
    generator: np.random.Generator, layers: int, experts: int, cv: float
) -> Floats:
    """Popularity [L, E] of mean 1/E whose coefficient of variation is about `cv`."""
    sigma = np.sqrt(np.log1p(cv * cv))
    raw = np.exp(sigma * generator.standard_normal((layers, experts)))
    shares: Floats = raw / raw.sum(axis=1, keepdims=True)
    return shares


def busiest_rank(experts: int, ranks: int, redundant: int, cv: float, *, seed: int = 0) -> float:
    """Mean over layers of the busiest rank's load over the mean rank's."""
    if ranks == 1:
        return 1.0
    layers = _BALANCED_LAYERS if redundant else _LAYERS
    shares = lognormal_shares(np.random.default_rng(seed), layers, experts, cv)
    placement = (
        rebalance(shares, num_slots=experts + redundant, ranks=ranks)
        if redundant
        else linear(layers=layers, num_experts=experts, ranks=ranks)
    )
    return float((placement.rank_load(shares).max(axis=1) * ranks).mean())
