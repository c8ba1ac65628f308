"""The expert-parallel group over `torch.distributed`: gloo on CPU, NCCL on CUDA."""

from collections.abc import Sequence

import torch
from torch import Tensor, distributed


class DistributedGroup:
    """An initialised process group as an `ExpertGroup`.

    Args:
        process_group: None takes the default group.
    """

    def __init__(self, process_group: distributed.ProcessGroup | None = None) -> None:
        self._group = process_group
        self.rank = distributed.get_rank(process_group)
        self.size = distributed.get_world_size(process_group)

    def all_gather_counts(self, counts: Tensor) -> Tensor:
        """int64 [n] of every rank → int64 [M, n], one collective."""
        gathered = counts.new_empty(self.size * counts.numel())
        distributed.all_gather_single(gathered, counts.contiguous(), group=self._group)
        return gathered.view(self.size, -1)

    def all_gather_rows(self, rows: Tensor, rows_by_rank: Sequence[int]) -> Tensor:
        """Uneven all-gather: padded to the longest rank, one collective."""
        longest = max(rows_by_rank)
        width = rows.shape[1]
        padded = rows.new_zeros(longest, width)
        padded[: rows.shape[0]] = rows
        gathered = rows.new_empty(self.size * longest, width)
        distributed.all_gather_single(gathered, padded, group=self._group)
        blocks = gathered.view(self.size, longest, width)
        return torch.cat([blocks[rank, :n] for rank, n in enumerate(rows_by_rank)])

    def all_to_all(self, rows: Tensor, send: Sequence[int], receive: Sequence[int]) -> Tensor:
        """Uneven all-to-all, one collective."""
        received = rows.new_empty(sum(receive), rows.shape[1])
        distributed.all_to_all_single(
            received, rows.contiguous(), list(receive), list(send), group=self._group
        )
        return received
