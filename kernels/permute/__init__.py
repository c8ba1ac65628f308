"""Token permutation by expert and its inverse."""

from torch import Tensor

from kernels.backend import uses_triton
from kernels.permute import reference

__all__ = ["permute", "sort_by_expert", "unpermute"]


def sort_by_expert(slots: Tensor, num_slots: int) -> tuple[Tensor, Tensor, Tensor]:
    """Stable order, inverse place and ends of int64 `slots` [n, k] by physical expert.

    Args:
        slots: int64 [n, k]; -1 sorts nowhere.
        num_slots: S.

    Returns:
        order int64 [n·k] (padded with -1), place int64 [n, k] (-1 where absent), ends int32 [S].
    """
    if uses_triton(slots.device):
        from kernels.permute import triton_kernel

        found: tuple[Tensor, Tensor, Tensor] = triton_kernel.sort_by_expert(slots, num_slots)
        return found
    return reference.sort_by_expert(slots, num_slots)


def permute(x: Tensor, order: Tensor, top_k: int) -> Tensor:
    """Rows of x [n, d] in sorted order, [len(order), d]; zero rows where the order is -1."""
    if uses_triton(x.device):
        from kernels.permute import triton_kernel

        rows: Tensor = triton_kernel.permute(x, order, top_k)
        return rows
    return reference.permute(x, order, top_k)


def unpermute(rows: Tensor, place: Tensor) -> Tensor:
    """Sorted rows [N, d] back at their assignments, [n, k, d]; zero where the place is -1."""
    if uses_triton(rows.device):
        from kernels.permute import triton_kernel

        back: Tensor = triton_kernel.unpermute(rows, place)
        return back
    return reference.unpermute(rows, place)
