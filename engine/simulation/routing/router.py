"""How often a token selects each expert, as a function of the router's bias and of the traffic.

A sigmoid gate with selection bias in closed form: a token's score of expert e is σ(x), x normal
with mean μ_e and deviation 1; e is selected when σ(x) + b_e passes the threshold θ that leaves k
experts. So P(e) = Φ(μ_e - logit(θ - b_e)), and θ solves Σ_e P(e) = k in every layer. Tokens of
different domains have means of their own. Assumed: the threshold is the same for all tokens of a
domain (exact for many experts); relative biases then act as in mechanisms § 4.9.
"""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from engine.simulation.routing import normal

Floats = npt.NDArray[np.float64]
_EDGE = 1e-6
_STEPS = 60
_WARM_STEPS = 14
_WARM_WIDTH = 0.02


def logit(score: Floats) -> Floats:
    """Inverse of the sigmoid; scores outside (0, 1) are taken at its edges."""
    inside = np.clip(score, _EDGE, 1.0 - _EDGE)
    odds: Floats = np.log(inside / (1.0 - inside))
    return odds


@dataclass
class BiasedRouter:
    """Selection probabilities of all layers at once.

    Attributes:
        means: μ [D, L, E], by traffic domain.
        top_k: k.
    """

    means: Floats
    top_k: int
    _thresholds: dict[int, Floats] = field(default_factory=dict)

    @classmethod
    def from_selection(cls, selection: Floats, bias: Floats, top_k: int) -> "BiasedRouter":
        """The router that selects with these probabilities [D, L, E] under `bias` [L, E].

        Each row of `selection` sums to k, every entry lies in (0, 1).
        """
        experts = selection.shape[-1]
        even = np.full(1, top_k / experts)
        threshold = 1.0 / (1.0 + np.exp(normal.quantile(even)))
        spread = np.clip(selection, 1e-9, 1.0 - 1e-9)
        # A common offset of the bias moves the threshold along and changes no choice.
        relative = bias - bias.mean(axis=1, keepdims=True)
        means = normal.quantile(spread) + logit(threshold - relative[None])
        return cls(means, top_k)

    def selection(self, bias: Floats, mix: Floats) -> Floats:
        """P(token selects e) [L, E]; every row sums to k.

        Args:
            bias: [L, E].
            mix: [D], share of the tokens from each domain.
        """
        total = np.zeros(bias.shape)
        for domain in np.flatnonzero(mix > 0):
            total += mix[domain] * self._of_domain(int(domain), bias)
        return total

    def _of_domain(self, domain: int, bias: Floats) -> Floats:
        """Bisection over θ of every layer, near the last one when that still brackets it."""
        means = self.means[domain]
        low, high, steps = self._bracket(domain, bias)
        for _ in range(steps):
            middle = (low + high) / 2.0
            over = normal.cdf(means - logit(middle - bias)).sum(axis=1) > self.top_k
            low, high = np.where(over[:, None], middle, low), np.where(over[:, None], high, middle)
        self._thresholds[domain] = (low + high) / 2.0
        found = normal.cdf(means - logit(self._thresholds[domain] - bias))
        scaled: Floats = found * (self.top_k / found.sum(axis=1, keepdims=True))
        return scaled

    def _bracket(self, domain: int, bias: Floats) -> tuple[Floats, Floats, int]:
        last = self._thresholds.get(domain)
        if last is not None:
            low, high = last - _WARM_WIDTH, last + _WARM_WIDTH
            means = self.means[domain]
            enough = normal.cdf(means - logit(low - bias)).sum(axis=1) > self.top_k
            few = normal.cdf(means - logit(high - bias)).sum(axis=1) <= self.top_k
            if bool((enough & few).all()):
                return low, high, _WARM_STEPS
        return (
            bias.min(axis=1, keepdims=True) - 0.01,
            bias.max(axis=1, keepdims=True) + 1.01,
            _STEPS,
        )
