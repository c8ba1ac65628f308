"""What an overflow policy sees and says. Pure: the same contest gives the same verdict anywhere."""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Contest:
    """The assignments of one capacity domain, in the same order on every rank that decides.

    Attributes:
        expert_ids: int64 [T, k].
        chosen: FP32 [T, k], unbiased scores.
        candidates: int64 [T, c], the next best experts, best first; c = 0 unless the policy asks.
        candidate_scores: FP32 [T, c].
        counts: int64 [E], assignments before capacity.
        num_replicas: int64 [E], physical copies of each expert.
        slots: capacity of one expert in this domain.
    """

    expert_ids: Tensor
    chosen: Tensor
    candidates: Tensor
    candidate_scores: Tensor
    counts: Tensor
    num_replicas: Tensor
    slots: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of every assignment; overflow = rerouted + spilled + dropped.

    Attributes:
        expert_ids: int64 [T, k], after rerouting.
        kept: bool [T, k], an expert computes it.
        rerouted: bool [T, k], kept by another expert than the router chose.
        replica: int64 [T, k], which copy of the expert computes it (0 unless spilled); None when
            the policy leaves that to the placement.
    """

    expert_ids: Tensor
    kept: Tensor
    rerouted: Tensor
    replica: Tensor | None = None


class Policy(Protocol):
    """One overflow policy."""

    candidates: int
    """Next best experts that the policy wants for every token."""

    def decide(self, contest: Contest) -> Verdict:
        """Settle every assignment beyond capacity."""
        ...


def positions(experts: Tensor, priority: Tensor | None) -> Tensor:
    """Place of each entry in the queue of its expert, 0 first: int64 [n].

    Args:
        experts: int64 [n].
        priority: [n], highest first; equal ones, and all when None, by index.
    """
    order = (
        torch.arange(experts.numel(), device=experts.device)
        if priority is None
        else priority.argsort(descending=True, stable=True)
    )
    order = order[experts[order].argsort(stable=True)]
    queue = experts[order]
    place = torch.arange(queue.numel(), device=queue.device) - torch.searchsorted(queue, queue)
    return torch.empty_like(place).index_copy_(0, order, place)


def overflowing(contest: Contest, *, by_score: bool) -> Tensor:
    """Flat indices [n] of the assignments beyond capacity, ascending.

    Args:
        contest: the domain.
        by_score: an expert keeps its highest scores; otherwise whoever comes first.
    """
    flat = contest.expert_ids.flatten()
    contested = (contest.counts > contest.slots)[flat].nonzero().squeeze(-1)
    priority = contest.chosen.flatten()[contested] if by_score else None
    return contested[positions(flat[contested], priority) >= contest.slots]


def free_room(contest: Contest) -> Tensor:
    """Free slots of every expert once the overflow is set aside: int64 [E]."""
    return (contest.slots - contest.counts).clamp_min(0)


def settle(contest: Contest, overflow: Tensor, moved: Tensor, targets: Tensor) -> Verdict:
    """The verdict when of the flat indices `overflow`, `moved` went to `targets`."""
    expert_ids = contest.expert_ids.flatten().index_copy(0, moved, targets)
    kept = torch.ones_like(expert_ids, dtype=torch.bool)
    kept[overflow] = False
    kept[moved] = True
    rerouted = torch.zeros_like(kept)
    rerouted[moved] = True
    shape = contest.expert_ids.shape
    return Verdict(expert_ids.view(shape), kept.view(shape), rerouted.view(shape))
