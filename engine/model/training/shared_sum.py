"""Sum of one flat vector over processes of one machine, through shared memory.

The addends are summed in rank order on every process, so a run repeats to the bit; there is no
network between the processes and none to configure.
"""

from multiprocessing.context import SpawnContext

import torch
from torch import Tensor

PEER_TIMEOUT_SECONDS = 600.0


class SharedSum:
    """Picklable to the processes that share it."""

    def __init__(self, context: SpawnContext, processes: int, size: int) -> None:
        self._slots = torch.zeros(processes, size)
        self._slots.share_memory_()  # type: ignore[no-untyped-call]
        self._barrier = context.Barrier(processes)

    def __call__(self, rank: int, vector: Tensor) -> Tensor:
        """The sum over all processes of `vector`, float32 [size]."""
        self._slots[rank].copy_(vector)
        self._barrier.wait(PEER_TIMEOUT_SECONDS)
        total = self._slots.sum(0)
        self._barrier.wait(PEER_TIMEOUT_SECONDS)
        return total

    def abort(self) -> None:
        """Make every process that waits, or will wait, fail at once."""
        self._barrier.abort()
