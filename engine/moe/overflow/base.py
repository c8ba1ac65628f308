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
        num_rerouted, num_spilled, num_dropped: assignments, of the whole domain.
    """

    expert_ids: Tensor
    kept: Tensor
    rerouted: Tensor
    replica: Tensor | None = None
    num_rerouted: int = 0
    num_spilled: int = 0
    num_dropped: int = 0


class Policy(Protocol):
    """One overflow policy."""

    candidates: int
    """Next best experts that the policy wants for every token."""

    def decide(self, contest: Contest) -> Verdict:
        """Settle every assignment beyond capacity."""
        ...


def in_queue_order(experts: Tensor, priority: Tensor | None) -> tuple[Tensor, Tensor]:
    """Entries sorted into the queues of their experts, and the place of each in its queue.

    Args:
        experts: int64 [n].
        priority: [n] in [-1, 1], highest first; equal ones, and all when None, by index.

    Returns:
        index int64 [n] of every sorted entry, and its place, 0 first, int64 [n].
    """
    # One sort for both: a score in [-1, 1] moves an expert's key by less than half an id.
    key = experts if priority is None else experts.double() + (1.0 - priority.double()) / 4
    order = key.argsort(stable=True)
    queue = experts.index_select(0, order)
    place = torch.arange(queue.numel(), device=queue.device) - torch.searchsorted(queue, queue)
    return order, place


def positions(experts: Tensor, priority: Tensor | None) -> Tensor:
    """Place of each entry in the queue of its expert, 0 first: int64 [n]; see `in_queue_order`."""
    order, place = in_queue_order(experts, priority)
    return torch.empty_like(place).scatter_(0, order, place)


def overflowing(contest: Contest, *, by_score: bool) -> Tensor:
    """Flat indices [n] of the assignments beyond capacity, ascending.

    Args:
        contest: the domain.
        by_score: an expert keeps its highest scores; otherwise whoever comes first.
    """
    flat = contest.expert_ids.flatten()
    contested = contested_entries(contest)
    priority = contest.chosen.flatten().index_select(0, contested) if by_score else None
    order, place = in_queue_order(flat.index_select(0, contested), priority)
    lost = contested.index_select(0, order[place >= contest.slots])
    return lost.sort().values


def contested_entries(contest: Contest) -> Tensor:
    """Flat indices of the assignments to experts that overflow, ascending."""
    over = contest.counts > contest.slots
    return over.index_select(0, contest.expert_ids.flatten()).nonzero().squeeze(-1)


def free_room(contest: Contest) -> Tensor:
    """Free slots of every expert once the overflow is set aside: int64 [E]."""
    return (contest.slots - contest.counts).clamp_min(0)


def settle(contest: Contest, overflow: Tensor, moved: Tensor, targets: Tensor) -> Verdict:
    """The verdict when of the flat indices `overflow`, `moved` went to `targets`."""
    shape = contest.expert_ids.shape
    kept = torch.ones(shape, dtype=torch.bool, device=overflow.device)
    kept.view(-1).index_fill_(0, overflow, value=False)
    rerouted = torch.zeros_like(kept)
    expert_ids = contest.expert_ids
    if moved.numel():
        kept.view(-1).index_fill_(0, moved, value=True)
        rerouted.view(-1).index_fill_(0, moved, value=True)
        expert_ids = expert_ids.flatten().index_copy(0, moved, targets).view(shape)
    return Verdict(
        expert_ids, kept, rerouted,
        num_rerouted=moved.numel(), num_dropped=overflow.numel() - moved.numel(),
    )  # fmt: skip
