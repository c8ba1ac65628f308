"""Routing of one layer's tokens: FP32 logits, scores, chosen experts, gates."""

from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional

from engine.moe.router import Router
from kernels.backend import uses_triton
from kernels.topk_gating import topk_gating


@dataclass(frozen=True, slots=True)
class Routing:
    """What the router decided, before capacity.

    Attributes:
        scores: FP32 [T, E], before any bias.
        expert_ids: int64 [T, k], best first.
        chosen: FP32 [T, k], unbiased scores of the chosen experts.
        gates: FP32 [T, k].
    """

    scores: Tensor
    expert_ids: Tensor
    chosen: Tensor
    gates: Tensor


def route(
    router: Router, top_k: int, hidden: Tensor, weight: Tensor, bias: Tensor | None
) -> Routing:
    """Route every row of `hidden` [T, d] with the router matrix `weight` FP32 [E, d].

    Logits are FP32 whatever the model's dtype, and the FP32 bias [E] is never cast down: a silent
    down-cast of either changes which experts are chosen.
    """
    logits = functional.linear(hidden.float(), weight)
    scores = router.scores(logits)
    if uses_triton(hidden.device):
        how = router.gating
        expert_ids, gates = topk_gating(
            logits, bias, top_k, sigmoid=how.sigmoid, renormalise=how.renormalise, scale=how.scale,
            num_groups=how.num_groups, groups_kept=how.groups_kept,
        )  # fmt: skip
        return Routing(scores, expert_ids, scores.gather(-1, expert_ids), gates)
    expert_ids = router.choose(scores, bias, top_k)
    chosen = scores.gather(-1, expert_ids)
    return Routing(scores, expert_ids, chosen, router.gates(chosen))
