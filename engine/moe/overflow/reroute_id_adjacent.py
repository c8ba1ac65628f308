"""Reroute to the expert with the neighbouring id. For comparison only.

Expert ids carry no similarity: a replacement scores about half of the original, and where hot ids
lie together nearly all overflow stays. The policy exists to show that, and is never a default.
"""

import torch
from torch import Tensor

from engine.moe.overflow.base import Contest, Verdict, free_room, overflowing, positions, settle


class RerouteIdAdjacent:
    """First id + 1, then id - 1, both modulo E, where there is room and the token is new."""

    candidates = 0

    def decide(self, contest: Contest) -> Verdict:
        """Reroute what fits, drop the rest."""
        overflow = overflowing(contest, by_score=True)
        top_k = contest.expert_ids.shape[1]
        flat_ids = contest.expert_ids.flatten()
        flat_scores = contest.chosen.flatten()
        settled = contest.expert_ids.clone()
        room = free_room(contest)
        waiting = overflow
        moved: list[Tensor] = [overflow[:0]]
        for step in (1, -1):
            proposal = torch.remainder(flat_ids[waiting] + step, room.numel())
            fresh = (settled[waiting // top_k] != proposal.unsqueeze(-1)).all(-1)
            asking, proposal, held = waiting[fresh], proposal[fresh], waiting[~fresh]
            accepted = positions(proposal, flat_scores[asking]) < room[proposal]
            settled.view(-1)[asking[accepted]] = proposal[accepted]
            room = room - torch.bincount(proposal[accepted], minlength=room.numel())
            moved.append(asking[accepted])
            waiting = torch.cat([asking[~accepted], held])
        gone = torch.cat(moved)
        return settle(contest, overflow, gone, settled.flatten()[gone])
