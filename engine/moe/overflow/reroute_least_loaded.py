"""Reroute to the least-loaded expert, whatever the token prefers (capacity-aware inference)."""

import torch
from torch import Tensor

from engine.moe.overflow.base import Contest, Verdict, free_room, overflowing, settle

ROUNDS = 4


class RerouteLeastLoaded:
    """Fills the emptiest experts first, highest score first; never twice on one expert.

    In rounds, the waiting assignments take the open slots in order of the load that each slot would
    meet. The few that would meet their own token again wait for the next round; what is left after
    `ROUNDS` is placed one by one.
    """

    candidates = 0

    def decide(self, contest: Contest) -> Verdict:
        """Reroute what fits, drop the rest."""
        overflow = overflowing(contest, by_score=True)
        top_k = contest.expert_ids.shape[1]
        order = contest.chosen.flatten()[overflow].argsort(descending=True, stable=True)
        waiting = overflow[order]
        expert_ids = contest.expert_ids.clone()
        room = free_room(contest)
        moved: list[Tensor] = [overflow[:0]]
        for _ in range(ROUNDS):
            offered = _emptiest_first(room, contest.slots)[: waiting.numel()]
            if not offered.numel():
                break
            asking = waiting[: offered.numel()]
            taken = _first_of_token(asking // top_k, offered, expert_ids)
            expert_ids.view(-1)[asking[taken]] = offered[taken]
            room = room - torch.bincount(offered[taken], minlength=room.numel())
            moved.append(asking[taken])
            waiting = torch.cat([asking[~taken], waiting[offered.numel() :]])
        moved.append(_one_by_one(waiting, expert_ids, room, top_k))
        gone = torch.cat(moved)
        return settle(contest, overflow, gone, expert_ids.flatten()[gone])


def _emptiest_first(room: Tensor, slots: int) -> Tensor:
    """Experts of all open slots, ordered by the load that the slot would meet, then by id."""
    experts = torch.arange(room.numel(), device=room.device).repeat_interleave(room)
    nth = torch.arange(experts.numel(), device=room.device) - torch.searchsorted(experts, experts)
    level = slots - room[experts] + nth
    return experts[(level * room.numel() + experts).argsort()]


def _first_of_token(tokens: Tensor, offered: Tensor, expert_ids: Tensor) -> Tensor:
    """Whether each offer is new to its token and the first such offer of this round: bool [n]."""
    known = (expert_ids[tokens] == offered.unsqueeze(-1)).any(-1)
    pair = tokens * (int(offered.max()) + 1) + offered
    order = pair.argsort(stable=True)
    repeated = torch.zeros_like(known)
    repeated[order[1:]] = pair[order[1:]] == pair[order[:-1]]
    return ~known & ~repeated


def _one_by_one(waiting: Tensor, expert_ids: Tensor, room: Tensor, top_k: int) -> Tensor:
    """Place the rest greedily, in place in `expert_ids`; the flat indices that found a slot."""
    left = room.tolist()
    placed: list[int] = []
    for entry in waiting.tolist():
        row = expert_ids[entry // top_k]
        held = set(row.tolist())
        free = [expert for expert, slots in enumerate(left) if slots > 0 and expert not in held]
        if free:
            target = max(free, key=lambda expert: (left[expert], -expert))
            row[entry % top_k] = target
            left[target] -= 1
            placed.append(entry)
    return torch.tensor(placed, dtype=torch.int64, device=waiting.device)
