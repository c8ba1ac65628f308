"""Drop by position: an expert keeps whoever comes first (Switch; Megatron's "position")."""

from engine.moe.overflow.base import Contest, Verdict, overflowing, settle


class DropByPosition:
    """Last token first; tokens are in rank order, then in the order of their batch."""

    candidates = 0

    def decide(self, contest: Contest) -> Verdict:
        """Drop every assignment beyond capacity."""
        lost = overflowing(contest, by_score=False)
        return settle(contest, lost, lost[:0], lost[:0])
