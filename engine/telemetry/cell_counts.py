"""Counts of experts by cell (request bucket, or bucket and phase), one table a layer.

On CUDA one fused kernel adds a layer; on the CPU one scatter over precomputed row starts, which is
several times faster there than the kernel's reference.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from kernels.backend import uses_triton
from kernels.expert_histogram import expert_histogram


@dataclass(frozen=True, slots=True)
class TokenCells:
    """The cell of every token of a step: int64 [T]; `starts` int64 [T, 1] is its row's start."""

    cells: Tensor
    starts: Tensor


class CellCounts:
    """int64 [layers, cells, experts] on the device.

    Args:
        layers, cells, experts: shape.
        device: where; also of the tensors that are counted.
    """

    def __init__(self, layers: int, cells: int, experts: int, device: torch.device) -> None:
        self.counts = torch.zeros(layers, cells, experts, dtype=torch.int64, device=device)
        self._experts = experts
        self._fused = uses_triton(device)
        self._tables = list(self.counts)
        self._rows = [table.view(-1) for table in self._tables]
        self._one = torch.ones(1, dtype=torch.int64, device=device)

    def locate(self, cells: Tensor) -> TokenCells:
        """Prepare a step's cells once for all of its layers."""
        return TokenCells(cells=cells, starts=(cells * self._experts).unsqueeze(1))

    def add(self, layer: int, expert_ids: Tensor, tokens: TokenCells) -> None:
        """Count expert_ids int64 [T, k] of one layer."""
        if self._fused:
            expert_histogram(expert_ids, tokens.cells, self._tables[layer])
            return
        index = (expert_ids + tokens.starts).view(-1)
        self._rows[layer].scatter_add_(0, index, self._one.expand(index.numel()))
