"""What every router kind is: three pure functions in FP32."""

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
