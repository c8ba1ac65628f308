"""One expert per token by logit, gated by its sigmoid (Llama-4)."""

from dataclasses import dataclass

from torch import Tensor

from engine.moe.router.base import Gating
from engine.moe.router.best import best
from engine.moe.spec import MoESpec


@dataclass(frozen=True, slots=True)
class SigmoidTop1Router:
    """The largest logit wins; sigmoid keeps the order, so choosing by score is the same."""

    spec: MoESpec

    def scores(self, logits: Tensor) -> Tensor:
        """Independent affinities in (0, 1), FP32 [T, E]."""
        return logits.sigmoid()

    def choose(self, scores: Tensor, bias: Tensor | None, count: int) -> Tensor:
        """The `count` largest (biased) scores: int64 [T, count], best first."""
        return best(scores if bias is None else scores + bias, count)

    def gates(self, chosen: Tensor) -> Tensor:
        """The score itself: one expert has nothing to be renormalised against. [T, 1]."""
        return chosen if self.spec.routed_scale == 1.0 else chosen * self.spec.routed_scale

    @property
    def gating(self) -> Gating:
        """For the kernel."""
        return Gating(sigmoid=True, renormalise=False, scale=self.spec.routed_scale)
