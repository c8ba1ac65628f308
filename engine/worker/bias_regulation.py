"""The online regulator of one rank, while the live plan asks for it."""

from torch import Tensor

from engine.moe.regulator import Regulator
from engine.worker.live_plan import LivePlans


class BiasRegulation:
    """Moves the live bias of `plans` by the group-wide counts, alike on every rank."""

    def __init__(self, plans: LivePlans) -> None:
        self._plans = plans
        self._regulator: Regulator | None = None

    @property
    def is_on(self) -> bool:
        """Whether counts are wanted."""
        return self._regulator is not None

    def switched(self, *, reloaded: bool) -> None:
        """The ranks run another plan: begin, go on, begin anew after a reload, or end."""
        bias = self._plans.live_bias
        if not self._plans.plan.updates_bias or bias is None:
            self._regulator = None
        elif reloaded or self._regulator is None:
            self._regulator = Regulator(bias)

    def observe(self, expert_counts: Tensor, num_tokens: int) -> None:
        """Count a step, int64 [L, E]; the bias moves when a window is full."""
        bias = self._plans.live_bias
        if self._regulator is not None and bias is not None:
            moved = self._regulator.observe(bias, expert_counts, num_tokens)
            self._plans.live_bias = bias if moved is None else moved
