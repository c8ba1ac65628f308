"""Grouped GEMM over ragged runs of rows, empty experts included."""

from torch import Tensor
from torch.nn import functional

from kernels.backend import uses_triton
from kernels.grouped_gemm import reference

__all__ = ["grouped_gemm"]

ALIGNMENT_BYTES = 16


def grouped_gemm(x: Tensor, weights: Tensor, ends: Tensor) -> Tensor:
    """x[i] @ weights[s] for the rows i of each expert s: [N, b].

    On CPU torch's `grouped_mm` runs where rows are whole 16 bytes, the reference where not.

    Args:
        x: [N, a], rows sorted by expert.
        weights: [S, a, b].
        ends: int32 [S], prefix sum of rows per expert.
    """
    if uses_triton(x.device):
        from kernels.grouped_gemm import triton_kernel

        out: Tensor = triton_kernel.grouped_gemm(x, weights, ends)
        return out
    size = weights.element_size()
    if all(width * size % ALIGNMENT_BYTES == 0 for width in weights.shape[1:]):
        return functional.grouped_mm(x, weights, offs=ends)
    return reference.grouped_gemm(x, weights, ends)
