"""What every router kind is: three pure functions in FP32."""

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor


class Router(Protocol):
    """Turns router logits into scores, a choice of experts, and gates. Always FP32.

    The bias moves the choice only: gates come from the unbiased scores
    (`b_i` is added for top-k selection; DeepSeek-V3 report § 2.1.2).
    """

    def scores(self, logits: Tensor) -> Tensor:
        """Affinities before any bias, FP32 [T, E], each ≥ 0, from FP32 logits [T, E]."""
        ...

    def choose(self, scores: Tensor, bias: Tensor | None, count: int) -> Tensor:
        """The `count` best experts of every token, best first: int64 [T, count].

        Args:
            scores: FP32 [T, E].
            bias: FP32 [E] or None.
            count: at least top-k; more gives the candidates that come next.
        """
        ...

    def gates(self, chosen: Tensor) -> Tensor:
        """Gates FP32 [T, k] from the unbiased scores of the chosen experts [T, k]."""
        ...

    @property
    def gating(self) -> "Gating":
        """The same in the terms of `kernels.topk_gating`, which does it in one pass on CUDA."""
        ...


@dataclass(frozen=True, slots=True)
class Gating:
    """What `kernels.topk_gating` takes beside logits, bias and k.

    Attributes:
        sigmoid: sigmoid scores, else softmax.
        renormalise: gates are divided by their sum.
        scale: factor on the gates.
        num_groups, groups_kept: of group-limited choice; 1 and 1 without.
    """

    sigmoid: bool
    renormalise: bool
    scale: float
    num_groups: int = 1
    groups_kept: int = 1
