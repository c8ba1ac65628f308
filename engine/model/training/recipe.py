"""How the reference checkpoint is trained, as pure functions of progress."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Recipe:
    """AdamW with warm-up and a long linear decay; the aux-loss-free bias rule beside it.

    Attributes:
        steps: optimiser steps; with `minutes`, only their upper bound.
        minutes: wall time after which training ends, its schedule following time, not steps.
        processes: one-thread data-parallel processes; part of what makes a run repeatable.
        tokens_per_step: over all processes.
        learning_rate, betas, weight_decay, clip_norm: AdamW and gradient clipping.
        warmup_steps: linear warm-up.
        decay_from: fraction of the run from which the rate falls linearly to zero.
        bias_speed: u of the bias rule; bias_speed_late from `late_from` on.
        seed: of weights and of the text drawn.
    """

    steps: int = 4500
    minutes: float | None = None
    processes: int = 2
    tokens_per_step: int = 2048
    learning_rate: float = 4e-3
    betas: tuple[float, float] = (0.9, 0.95)
    weight_decay: float = 0.05
    clip_norm: float = 1.0
    warmup_steps: int = 50
    decay_from: float = 0.3
    bias_speed: float = 1e-3
    bias_speed_late: float = 1e-4
    late_from: float = 0.9
    seed: int = 0

    def rate(self, step: int, progress: float) -> float:
        """Learning rate at `step`, `progress` in 0..1 of the run."""
        warm = min(1.0, (step + 1) / self.warmup_steps)
        fall = min(1.0, (1.0 - progress) / (1.0 - self.decay_from))
        return self.learning_rate * min(warm, max(fall, 0.0))

    def update_speed(self, progress: float) -> float:
        """Speed u of the bias rule."""
        return self.bias_speed if progress < self.late_from else self.bias_speed_late
