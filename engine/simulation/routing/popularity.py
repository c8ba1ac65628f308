"""Natural popularity of experts by layer and traffic domain: lognormal, with fitted spread.

σ of the log popularity and its correlation between domains are fitted to recorded counts by
`trimtab.bench.routing_tables`: OLMoE over four domains, Mixtral over four domains, a 256-expert
Qwen3.5 fine-tune (whose counts are summed over layers, so its σ is a lower bound). Models without
a recording take the value of the nearest one: assumed.
"""

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

SIGMA: Mapping[str, float] = MappingProxyType(
    {"olmoe": 0.898, "mixtral-8x7b": 0.149, "qwen3.5-256e": 0.267}
)
"""Fitted."""
DEFAULT_SIGMA = 0.267
"""Assumed for the other presets: the recorded 256-expert model."""
DOMAIN_CORRELATION = 0.184
"""Of log popularity between two domains; fitted (mean over both models and recorded layers)."""
SEQUENCE_CV = 0.7
"""Spread of one sequence's own preference around its domain's. Assumed (mechanisms § 4.3)."""
DOMAINS = 3


def popularity(
    generator: np.random.Generator, layers: int, experts: int, top_k: int, sigma: float
) -> Floats:
    """Selection probabilities [D, L, E]; every row sums to k and stays below one."""
    shared = generator.standard_normal((1, layers, experts))
    own = generator.standard_normal((DOMAINS, layers, experts))
    weight = np.sqrt(DOMAIN_CORRELATION)
    logs = sigma * (weight * shared + np.sqrt(1.0 - DOMAIN_CORRELATION) * own)
    return capped_selection(np.exp(logs), top_k)


def capped_selection(weights: Floats, top_k: int, ceiling: float = 0.95) -> Floats:
    """Scale weights [..., E] to rows that sum to k, none above `ceiling`."""
    chosen: Floats = weights * (top_k / weights.sum(axis=-1, keepdims=True))
    for _ in range(50):
        over = chosen > ceiling
        if not over.any():
            break
        free = np.where(over, 0.0, chosen)
        room = top_k - np.where(over, ceiling, 0.0).sum(axis=-1, keepdims=True)
        scaled = free * (room / np.maximum(free.sum(axis=-1, keepdims=True), 1e-12))
        chosen = np.where(over, ceiling, scaled)
    return chosen
