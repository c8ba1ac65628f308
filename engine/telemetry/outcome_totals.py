"""What capacity did, added up on the device until a frame takes it."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from contract.runtime_config import CAPACITY_LADDER

if TYPE_CHECKING:
    from engine.moe.context import CapacityOutcome

_SCALARS = (
    "overflow", "rerouted", "spilled", "dropped", "executed", "tokens_all_dropped",
)  # fmt: skip


class OutcomeTotals:
    """Totals by layer and by config generation.

    Args:
        ranks: of the expert-parallel group.
        layers, experts, top_k: L, E, k.
        device: of the outcomes.

    Attributes:
        required: FP32 scalar, max of count · E / (T·k) where the first rung overflows, at least 1;
            0 before the first step.
        assignments, overflow: by generation; overflow as int64 scalars on the device.
        slots: capacity that was offered, by layer.
    """

    def __init__(
        self, *, ranks: int, layers: int, experts: int, top_k: int, device: torch.device
    ) -> None:
        self._layers, self._experts, self._top_k = layers, experts, top_k
        self._columns = len(_SCALARS) + len(CAPACITY_LADDER)
        shape = (layers, self._columns + ranks)
        self._sums = torch.zeros(shape, dtype=torch.int64, device=device)
        self._peak = torch.zeros(layers, dtype=torch.int64, device=device)
        self.required = torch.zeros((), dtype=torch.float32, device=device)
        self.zero()

    def zero(self) -> None:
        """Start anew."""
        for tensor in (self._sums, self._peak, self.required):
            tensor.zero_()
        self.slots = [0] * self._layers
        self.assignments: dict[int, int] = {}
        self.overflow: dict[int, Tensor] = {}

    def add(self, layers: list[int], generation: int, counted: "CapacityOutcome") -> None:
        """Add n steps of one generation; rows are step by step, the same `layers` in each."""
        scalars = [getattr(counted, name) for name in _SCALARS]
        added = torch.cat(
            [torch.stack(scalars, dim=1), counted.overflow_at_rung, counted.card_counts], dim=1
        )
        peaks = counted.expert_counts.amax(1)
        rows = slice(None) if len(layers) == self._layers else layers
        self._sums[rows] += added.view(-1, len(layers), added.shape[1]).sum(0)
        highest = peaks.view(-1, len(layers)).amax(0)
        self._peak[rows] = torch.maximum(self._peak[rows], highest)
        for layer in layers:
            steps = len(added) // len(layers)
            self.slots[layer] += steps * self._experts * (counted.slots or 0)
        # Without overflow at the first rung C = 1 would have done, whatever the peak: cap_min held.
        held = peaks * (counted.overflow_at_rung[:, 0] > 0)
        needed = held.amax() * (self._experts / (counted.tokens * self._top_k))
        torch.maximum(self.required, needed.clamp_min(1.0), out=self.required)
        self._add_generation(generation, len(added) * counted.tokens, counted.overflow.sum())

    def by_name(self) -> dict[str, Tensor]:
        """Frame arrays by name, views of the totals."""
        columns = self._sums.transpose(0, 1)
        return {name: columns[i] for i, name in enumerate(_SCALARS)} | {
            "overflow_at_rung": columns[len(_SCALARS) : self._columns],
            "card_assignments": self._sums[:, self._columns :],
            "required_max": self._peak,
        }

    def _add_generation(self, generation: int, tokens: int, overflow: Tensor) -> None:
        before = self.assignments.get(generation, 0)
        self.assignments[generation] = before + tokens * self._top_k
        if generation in self.overflow:
            overflow = self.overflow[generation] + overflow
        self.overflow[generation] = overflow
