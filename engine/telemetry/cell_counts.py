"""Counts of experts by cell (request bucket, or bucket and phase), one table a layer.

On CUDA one fused kernel adds a layer; on the CPU one scatter adds a step, which is several times
faster there than the kernel's reference.
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

    def add(self, routings: Sequence[tuple[int, Tensor]], cells: Tensor) -> None:
        """Count the experts of some layers, int64 [T, k] each, for tokens in `cells`, int64 [T]."""
        if self._fused:
            for layer, expert_ids in routings:
                expert_histogram(expert_ids, cells, self._tables[layer])
            return
        _, num_cells, experts = self.counts.shape
        index = torch.stack([expert_ids for _, expert_ids in routings])
        starts = [layer * num_cells * experts for layer, _ in routings]
        index += torch.tensor(starts, device=index.device).view(-1, 1, 1)
        index += (cells * experts).unsqueeze(1)
        self._flat.scatter_add_(0, index.view(-1), self._one.expand(index.numel()))
