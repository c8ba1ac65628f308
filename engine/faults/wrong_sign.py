"""The incident: an online bias regulator whose sign is wrong (`mechanisms` row 92).

The right rule adds u · sign(mean - n_e) (arXiv 2408.15664, algorithm 1); this one subtracts it, so
load runs away: about 230 updates of u = 0.001 bring 70 % of assignments to 16 % of 128 experts.
"""

import torch
from torch import Tensor

from engine.worker.step_hook import HookStep


class WrongSignRegulator:
    """A step hook that updates the bias at the beat of the engine's clock.

    Args:
        update_speed: u.
        updates_per_second: beats.
        min_tokens: group tokens since the last update that the next one waits for.
    """

    moves_bias = True

    def __init__(
        self, *, update_speed: float, updates_per_second: float, min_tokens: float
    ) -> None:
        self.tick_seconds = 1.0 / updates_per_second
        self._speed = update_speed
        self._min_tokens = min_tokens
        self._due = False
        self._tokens = 0
        self._counts: Tensor | None = None

    def before_step(self, step: HookStep) -> None:
        """Nothing: counts come after the model ran."""

    def after_step(self, step: HookStep) -> None:
        """Add the counts; update when a beat is due and enough tokens were seen."""
        if step.bias is None:
            return
        self._due = self._due or step.ticks > 0
        self._tokens += step.num_tokens
        counts = step.expert_counts.clone() if self._counts is None else self._counts
        if self._counts is not None:
            counts += step.expert_counts
        self._counts = counts
        if not self._due or self._tokens < self._min_tokens:
            return
        load = counts.double()
        step.bias.sub_(self._speed * torch.sign(load.mean(1, keepdim=True) - load).float())
        self._counts, self._tokens, self._due = None, 0, False
