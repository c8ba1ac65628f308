"""Spill to a replica of the same expert: exact for the model, possible only where there are any."""

import torch

from engine.moe.overflow.base import Contest, Verdict, contested_entries, positions


class Spill:
    """Each physical copy has the capacity of one expert; the first copy fills first.

    Highest scores stay on the first copy, the next go to the second, and what no copy holds is
    dropped.
    """

    candidates = 0

    def decide(self, contest: Contest) -> Verdict:
        """Fill copy after copy, drop the rest."""
        flat = contest.expert_ids.flatten()
        contested = contested_entries(contest)
        place = positions(flat[contested], contest.chosen.flatten()[contested])
        copy = torch.div(place, contest.slots, rounding_mode="floor")
        held = copy < contest.num_replicas[flat[contested]]
        kept = torch.ones_like(flat, dtype=torch.bool)
        kept[contested] = held
        replica = torch.zeros_like(flat)
        replica[contested] = copy.where(held, torch.zeros_like(copy))
        shape = contest.expert_ids.shape
        return Verdict(
            expert_ids=contest.expert_ids,
            kept=kept.view(shape),
            rerouted=torch.zeros(shape, dtype=torch.bool, device=flat.device),
            replica=replica.view(shape),
            num_spilled=int((held & (copy > 0)).sum()),
            num_dropped=int((~held).sum()),
        )
