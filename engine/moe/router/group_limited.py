"""Group-limited (node-limited) sigmoid top-k with a selection-only bias (DeepSeek-V3)."""

from dataclasses import dataclass

from torch import Tensor

from engine.moe.router.base import Gating
from engine.moe.router.best import best
from engine.moe.router.sigmoid_bias import SigmoidBiasRouter
from engine.moe.spec import MoESpec


@dataclass(frozen=True, slots=True)
class GroupLimitedRouter:
    """A token first keeps the groups whose two best biased scores sum highest, then chooses there.

    Experts lie in `num_groups` equal runs of ids. Source: DeepSeek-V3 report § 3.2.2.
    """

    spec: MoESpec

    def scores(self, logits: Tensor) -> Tensor:
        """Independent affinities in (0, 1), FP32 [T, E]."""
        return logits.sigmoid()

    def choose(self, scores: Tensor, bias: Tensor | None, count: int) -> Tensor:
        """The `count` largest biased scores within the kept groups: int64 [T, count].

        `count` must not exceed the spec's `reachable_experts`.
        """
        biased = scores if bias is None else scores + bias
        if self.spec.groups_kept == self.spec.num_groups:
            return best(biased, count)
        grouped = biased.view(
            -1, self.spec.num_groups, self.spec.num_experts // self.spec.num_groups
        )
        best_two = grouped.topk(min(2, grouped.shape[-1]), dim=-1).values.sum(dim=-1)
        kept = best_two.topk(self.spec.groups_kept, dim=-1).indices
        barred = best_two.new_ones(best_two.shape).scatter(-1, kept, 0.0).bool()
        within = grouped.masked_fill(barred.unsqueeze(-1), float("-inf")).flatten(-2)
        return best(within, count)

    def gates(self, chosen: Tensor) -> Tensor:
        """As for the ungrouped gate: [T, k]."""
        return SigmoidBiasRouter(self.spec).gates(chosen)

    @property
    def gating(self) -> Gating:
        """For the kernel."""
        return Gating(
            sigmoid=True,
            renormalise=self.spec.renormalise,
            scale=self.spec.routed_scale,
            num_groups=self.spec.num_groups,
            groups_kept=self.spec.groups_kept,
        )
