"""Sigmoid scores with a selection-only bias: the aux-loss-free gate, without groups."""

from dataclasses import dataclass

from torch import Tensor

from engine.moe.router.base import Gating
from engine.moe.router.best import best
from engine.moe.spec import MoESpec

TINY = 1e-20
"""Keeps a token whose chosen scores all underflow from dividing by zero."""


@dataclass(frozen=True, slots=True)
class SigmoidBiasRouter:
    """Each expert is scored on its own; the bias decides who is chosen, never how much it counts.

    Source: arXiv 2408.15664; DeepSeek-V3 report § 2.1.2.
    """

    spec: MoESpec

    def scores(self, logits: Tensor) -> Tensor:
        """Independent affinities in (0, 1), FP32 [T, E]."""
        return logits.sigmoid()

    def choose(self, scores: Tensor, bias: Tensor | None, count: int) -> Tensor:
        """The `count` largest biased scores: int64 [T, count], best first."""
        return best(scores if bias is None else scores + bias, count)

    def gates(self, chosen: Tensor) -> Tensor:
        """Unbiased scores, renormalised where the spec says so, times the routed scale: [T, k]."""
        gates = chosen
        if self.spec.renormalise:
            gates = gates / (gates.sum(dim=-1, keepdim=True) + TINY)
        return gates if self.spec.routed_scale == 1.0 else gates * self.spec.routed_scale

    @property
    def gating(self) -> Gating:
        """For the kernel."""
        return Gating(sigmoid=True, renormalise=self.spec.renormalise, scale=self.spec.routed_scale)
