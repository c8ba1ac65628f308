"""Where a fault may take hold of a rank between steps. The engine runs none by itself."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor


@dataclass(frozen=True, slots=True)
class HookStep:
    """The step that a hook sees, the same on every rank but for `rank`.

    Attributes:
        rank: the rank that runs the hook.
        bias: FP32 [L, E] live selection bias, to be changed in place; None where there is none.
        expert_counts: int64 [L, E], assignments of the step over the EP group.
        num_tokens: tokens of the step over the group.
        ticks: beats of the hook's own `tick_seconds` that became due, by the engine's clock.
        pause: sleeps for so many seconds.
    """

    rank: int
    bias: Tensor | None
    expert_counts: Tensor
    num_tokens: int
    ticks: int
    pause: Callable[[float], None]


class StepHook(Protocol):
    """Runs on every rank; must decide alike on all of them from what `HookStep` shares.

    Attributes:
        tick_seconds: how often the engine's clock beats for this hook.
        moves_bias: whether it writes the bias: a commit that reloads the bias stops such a hook.
    """

    tick_seconds: float
    moves_bias: bool

    def before_step(self, step: HookStep) -> None:
        """Called before the model runs; `expert_counts` are still zero."""
        ...

    def after_step(self, step: HookStep) -> None:
        """Called after the model ran."""
        ...
