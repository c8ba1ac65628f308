"""Counts of experts by cell (request bucket, or bucket and phase), one table a layer.

On CUDA one fused kernel adds a layer; on the CPU one scatter adds several steps, which is many
times faster there than the kernel's reference.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from kernels.backend import uses_triton
from kernels.expert_histogram import expert_histogram


class CellCounts:
    """int64 [layers, cells, experts] on the device.

    Args:
        layers, cells, experts: shape.
        device: where; also of the tensors that are counted.
    """

    def __init__(self, layers: int, cells: int, experts: int, device: torch.device) -> None:
        self.counts = torch.zeros(layers, cells, experts, dtype=torch.int64, device=device)
        self._fused = uses_triton(device)
        self._tables = list(self.counts)
        self._flat = self.counts.view(-1)
        self._one = torch.ones(1, dtype=torch.int64, device=device)

    def add(self, layers: Sequence[int], expert_ids: Sequence[Tensor], cells: Tensor) -> None:
        """Count n steps of some layers.

        Args:
            layers: L of them.
            expert_ids: int64 [T, k] of every step and layer, step by step.
            cells: int64 [n, T], of the tokens of each step.
        """
        steps, width = len(cells), len(layers)
        if self._fused:
            for row, ids in enumerate(expert_ids):
                expert_histogram(ids, cells[row // width], self._tables[layers[row % width]])
            return
        _, num_cells, experts = self.counts.shape
        index = torch.stack(list(expert_ids))
        by_step = index.view(steps, width, *index.shape[1:])
        starts = [layer * num_cells * experts for layer in layers]
        by_step += torch.tensor(starts, device=index.device).view(-1, 1, 1)
        by_step += (cells * experts).view(steps, 1, -1, 1)
        self._flat.scatter_add_(0, index.view(-1), self._one.expand(index.numel()))
