"""Drop: an expert keeps its highest scores, the rest keep only their residual.

Megatron's token drop policy "probs". The gates of a token are not renormalised: what is lost is
lost, and `gate_mass_kept` shows it.
"""

from engine.moe.overflow.base import Contest, Verdict, overflowing, settle


class Drop:
    """Lowest score first."""

    candidates = 0

    def decide(self, contest: Contest) -> Verdict:
        """Drop every assignment beyond capacity."""
        lost = overflowing(contest, by_score=True)
        return settle(contest, lost, lost[:0], lost[:0])
