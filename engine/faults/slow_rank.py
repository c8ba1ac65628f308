"""One rank is late to every step; the collectives make its peers wait."""

from engine.worker.step_hook import HookStep


class SlowRank:
    """A step hook that pauses on one rank.

    Args:
        rank: which.
        pause_seconds: before each step.
    """

    moves_bias = False
    tick_seconds = 1.0

    def __init__(self, *, rank: float, pause_seconds: float) -> None:
        self._slow_rank = int(rank)
        self._pause_seconds = pause_seconds

    def before_step(self, step: HookStep) -> None:
        """Pause where this is the slow rank."""
        if step.rank == self._slow_rank:
            step.pause(self._pause_seconds)

    def after_step(self, step: HookStep) -> None:
        """Nothing."""
