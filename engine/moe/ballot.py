"""What a rank tells of its assignments so that every rank can decide about all of them.

A small step carries its ballots along with the counts, in one fixed block, so that deciding costs
no second collective: at decode that is the common case, since some expert nearly always overflows.
A larger step sends them in a second all-gather, and only when something overflows.
"""

import torch
from torch import Tensor

from engine.moe.overflow import Contest, Policy
from engine.moe.router import Router
from engine.moe.routing import Routing
from engine.moe.spec import MoESpec

CARRIED_ROWS = 64
"""Tokens of one rank whose ballots fit the block."""


def cast(
    routing: Routing, bias: Tensor | None, policy: Policy, router: Router, spec: MoESpec
) -> Tensor:
    """FP32 [T_loc, w]: ids, scores, candidates, their scores; ids are exact in FP32."""
    parts = [routing.expert_ids.float(), routing.chosen]
    if policy.candidates:
        count = spec.top_k + _spare(policy, spec)
        candidates = router.choose(routing.scores, bias, count)[:, spec.top_k :]
        parts += [candidates.float(), routing.scores.gather(-1, candidates)]
    return torch.cat(parts, dim=1)


def carried(ballots: Tensor) -> Tensor:
    """The fixed block as int64 [CARRIED_ROWS · w / 2]; empty rows when it does not fit."""
    block = ballots.new_zeros(CARRIED_ROWS, ballots.shape[1])
    if len(ballots) <= CARRIED_ROWS:
        block[: len(ballots)] = ballots
    return block.view(-1).view(torch.int64)


def uncarried(blocks: Tensor, tokens: tuple[int, ...]) -> Tensor | None:
    """Everyone's ballots [Σ T, w] from the blocks [M, ...], None when some rank's did not fit."""
    if max(tokens) > CARRIED_ROWS:
        return None
    rows = blocks.contiguous().view(torch.float32).view(len(tokens), CARRIED_ROWS, -1)
    return torch.cat([rows[rank, :count] for rank, count in enumerate(tokens)])


def contest(ballots: Tensor, counts: Tensor, num_replicas: Tensor, slots: int, k: int) -> Contest:
    """The contest that ballots [T, w] describe; see `Contest` for the rest."""
    spare = ballots.shape[1] // 2 - k
    ids, chosen, candidates, scores = torch.split(ballots, [k, k, spare, spare], dim=1)
    return Contest(
        expert_ids=ids.long(), chosen=chosen, candidates=candidates.long(),
        candidate_scores=scores, counts=counts, num_replicas=num_replicas, slots=slots,
    )  # fmt: skip


def _spare(policy: Policy, spec: MoESpec) -> int:
    return min(policy.candidates, spec.reachable_experts - spec.top_k)
