"""Reroute to the next best expert that has room: candidates k+1 … k+8 of the token's own order."""

import torch
from torch import Tensor

from engine.moe.overflow.base import Contest, Verdict, free_room, overflowing, positions, settle

NEXT_BEST = 8
STALE = -1.0
"""Below every score: a proposal that cannot be accepted queues behind all others."""


class RerouteNextBest:
    """In rounds: every waiting assignment proposes to its token's next candidate.

    An expert takes the highest candidate scores that fit its room. A token never proposes one
    candidate twice, nor an expert that it was routed to, so it cannot end twice on one expert.
    """

    candidates = NEXT_BEST

    def decide(self, contest: Contest) -> Verdict:
        """Reroute what fits, drop the rest."""
        overflow = overflowing(contest, by_score=True)
        top_k = contest.expert_ids.shape[1]
        room = free_room(contest)
        pointer = torch.zeros(len(contest.expert_ids), dtype=torch.int64, device=room.device)
        waiting = overflow
        moved: list[Tensor] = [overflow[:0]]
        targets: list[Tensor] = [overflow[:0]]
        while waiting.numel():
            tokens = waiting // top_k
            turn = torch.arange(tokens.numel(), device=tokens.device)
            column = pointer[tokens] + turn - torch.searchsorted(tokens, tokens)
            open_ = column < contest.candidates.shape[1]
            waiting, tokens, column = waiting[open_], tokens[open_], column[open_]
            proposal = contest.candidates[tokens, column]
            score = contest.candidate_scores[tokens, column]
            fresh = (contest.expert_ids[tokens] != proposal.unsqueeze(-1)).all(-1)
            accepted = fresh & (positions(proposal, score.where(fresh, STALE)) < room[proposal])
            moved.append(waiting[accepted])
            targets.append(proposal[accepted])
            room = room - torch.bincount(proposal[accepted], minlength=room.numel())
            pointer = pointer.index_add(0, tokens, torch.ones_like(tokens))
            waiting = waiting[~accepted]
        return settle(contest, overflow, torch.cat(moved), torch.cat(targets))
