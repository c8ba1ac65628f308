"""Un-permute and weighted combine."""

from torch import Tensor

from kernels.backend import uses_triton
from kernels.weighted_combine import reference

__all__ = ["weighted_combine"]


def weighted_combine(rows: Tensor, place: Tensor, gates: Tensor) -> Tensor:
    """Σ_j gates[t, j] · rows[place[t, j]], accumulated in FP32: [n, d].

    Args:
        rows: [N, d], expert outputs in sorted order.
        place: int64 [n, k], row of each assignment; -1 adds nothing.
        gates: FP32 [n, k].
    """
    if uses_triton(rows.device):
        from kernels.weighted_combine import triton_kernel

        out: Tensor = triton_kernel.weighted_combine(rows, place, gates)
        return out
    return reference.weighted_combine(rows, place, gates)
