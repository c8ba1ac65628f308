"""The bias of contiguous experts rises steadily: skew that falls on few cards."""

from engine.worker.step_hook import HookStep


class BiasRamp:
    """A step hook that adds `height` in equal parts, one at each beat of the engine's clock.

    Args:
        height: what is added in the end, to every MoE layer.
        seconds: how long the rise takes.
        first_expert, num_experts: which experts.
    """

    moves_bias = True
    tick_seconds = 0.1

    def __init__(
        self, *, height: float, seconds: float, first_expert: float, num_experts: float
    ) -> None:
        self._parts = max(1, round(seconds / self.tick_seconds))
        self._height = height
        self._done = 0
        self._experts = slice(int(first_expert), int(first_expert) + int(num_experts))

    def before_step(self, step: HookStep) -> None:
        """Raise the bias by the beats that are due, so that this step is routed by it."""
        parts = min(step.ticks, self._parts - self._done)
        if step.bias is None or parts <= 0:
            return
        step.bias[:, self._experts] += self._height * parts / self._parts
        self._done += parts

    def after_step(self, step: HookStep) -> None:
        """Nothing."""
