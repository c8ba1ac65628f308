"""Softmax over all experts, then top-k; renormalised or not (Mixtral, Qwen3-MoE, OLMoE)."""

from dataclasses import dataclass

from torch import Tensor

from engine.moe.router.base import Gating
from engine.moe.router.best import best
from engine.moe.spec import MoESpec


@dataclass(frozen=True, slots=True)
class SoftmaxRouter:
    """Scores are probabilities over all experts: softmax comes before top-k."""

    spec: MoESpec

    def scores(self, logits: Tensor) -> Tensor:
        """Probabilities FP32 [T, E]."""
        return logits.softmax(dim=-1)

    def choose(self, scores: Tensor, bias: Tensor | None, count: int) -> Tensor:
        """The `count` largest biased scores: int64 [T, count], best first."""
        return best(scores if bias is None else scores + bias, count)

    def gates(self, chosen: Tensor) -> Tensor:
        """The probabilities themselves, or each divided by the sum of the chosen: [T, k]."""
        gates = chosen / chosen.sum(dim=-1, keepdim=True) if self.spec.renormalise else chosen
        return gates if self.spec.routed_scale == 1.0 else gates * self.spec.routed_scale

    @property
    def gating(self) -> Gating:
        """For the kernel."""
        return Gating(
            sigmoid=False, renormalise=self.spec.renormalise, scale=self.spec.routed_scale
        )
