"""What a decode step reads of the cache, kept dense while the same sequences go on.

Gathering every sequence's blocks anew costs a decode step as much memory traffic as attending them.
While one step after another decodes the same sequences, each one token further, what the step
before gathered is still right: only the new rows are added. It is gathered again when a sequence
comes or goes, and when the longest one needs another block.

It is a second copy of what the sequences have in the cache, so it is kept on the CPU alone: a GPU's
memory is scarcer than its bandwidth.
"""

import numpy as np
import torch
from torch import Tensor

from engine.model.attention_plan import AttentionPlan, DecodeGroup


class DecodeRows:
    """Gathered rows of every layer, [planes, S · C, width], of the sequences that decode together.

    Args:
        layers: of the cache.
        block_tokens: tokens of a block.
    """

    def __init__(self, layers: int, block_tokens: int) -> None:
        self._rows: list[Tensor | None] = [None] * layers
        self._block_tokens = block_tokens
        self._group: DecodeGroup | None = None
        self._places: Tensor | None = None

    def start_step(self, plan: AttentionPlan) -> None:
        """Keep what was gathered where this step goes on from the last one, else drop it."""
        before, self._group = self._group, _only_group(plan)
        if before is None or self._group is None or not self._goes_on(before, self._group):
            self._rows = [None] * len(self._rows)
            return
        sequences, context = len(self._group.positions), self._group.key_positions.shape[1]
        starts = torch.arange(0, sequences * context, context, device=self._group.positions.device)
        self._places = starts + self._group.positions.squeeze(1)

    def add(self, layer: int, rows: Tensor) -> None:
        """Take this step's rows [planes, S, width], one a sequence; nothing where none are kept."""
        kept = self._rows[layer]
        if kept is not None and self._places is not None:
            kept.index_copy_(1, self._places, rows)

    def of(self, layer: int, group: DecodeGroup) -> Tensor | None:
        """What is kept of a group, None where it must be gathered."""
        return self._rows[layer] if group is self._group else None

    def keep(self, layer: int, group: DecodeGroup, rows: Tensor) -> None:
        """Keep what was gathered, where the next step may go on from it."""
        if group is self._group and rows.is_cpu:
            self._rows[layer] = rows

    def _goes_on(self, before: DecodeGroup, now: DecodeGroup) -> bool:
        """The same sequences: a block has one owner, so one token further in the same blocks."""
        if before.block_tables.shape != now.block_tables.shape:
            return False
        # A few hundred numbers: NumPy compares them in a third of the time.
        position, position_now = before.positions.cpu().numpy(), now.positions.cpu().numpy()
        if (position + 1 != position_now).any():
            return False
        moved = before.block_tables.cpu().numpy() != now.block_tables.cpu().numpy()
        used = np.arange(moved.shape[1]) * self._block_tokens <= position
        return not bool((moved & used).any())


def _only_group(plan: AttentionPlan) -> DecodeGroup | None:
    """The group of a step that does nothing else, its sequences in the step's own order."""
    if plan.prefill or len(plan.decode) != 1 or plan.decode[0].rows is not None:
        return None
    return plan.decode[0]
