"""The step hooks of one rank: none unless a fault was injected.

A hook decides from what every rank shares (group-wide counts, the engine's clock), so every rank
moves its copy of the bias alike.
"""

import threading
from collections.abc import Iterable

import torch
from torch import Tensor

from engine.worker.step_hook import HookStep, StepHook


class StepHooks:
    """The hooks of one rank by name.

    Args:
        rank: this rank.
        layers, experts: L, E of the counts.
        device: of the counts.
    """

    def __init__(self, rank: int, layers: int, experts: int, device: torch.device) -> None:
        self._rank = rank
        self._hooks: dict[str, StepHook] = {}
        self._no_counts = torch.zeros(layers, experts, dtype=torch.int64, device=device)
        self._never = threading.Event()

    def __bool__(self) -> bool:
        return bool(self._hooks)

    def put(self, name: str, hook: StepHook | None) -> None:
        """Start a hook, or stop it (None)."""
        if hook is None:
            self._hooks.pop(name, None)
        else:
            self._hooks[name] = hook

    def quarantine(self) -> None:
        """The bias was reloaded: what moved it before must not go on."""
        self._hooks = {name: hook for name, hook in self._hooks.items() if not hook.moves_bias}

    def before_step(self, bias: Tensor | None, num_tokens: int, ticks: dict[str, int]) -> None:
        """Call every hook before the model runs."""
        for hook, step in self._steps(bias, self._no_counts, num_tokens, ticks):
            hook.before_step(step)

    def after_step(
        self, bias: Tensor | None, expert_counts: Tensor, num_tokens: int, ticks: dict[str, int]
    ) -> None:
        """Call every hook after the model ran."""
        for hook, step in self._steps(bias, expert_counts, num_tokens, ticks):
            hook.after_step(step)

    def _pause(self, seconds: float) -> None:
        self._never.wait(seconds)

    def _steps(
        self, bias: Tensor | None, counts: Tensor, num_tokens: int, ticks: dict[str, int]
    ) -> Iterable[tuple[StepHook, HookStep]]:
        for name, hook in self._hooks.items():
            yield (
                hook,
                HookStep(
                    rank=self._rank, bias=bias, expert_counts=counts, num_tokens=num_tokens,
                    ticks=ticks.get(name, 0), pause=self._pause,
                ),
            )  # fmt: skip
