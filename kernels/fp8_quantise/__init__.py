"""FP8 E4M3 quantise and dequantise, 1 × 128 tiles."""

import torch
from torch import Tensor

from kernels.backend import uses_triton
from kernels.fp8_quantise import reference
from kernels.fp8_quantise.reference import E4M3_MAX, TILE

__all__ = ["E4M3_MAX", "TILE", "dequantise", "quantise"]


def quantise(x: Tensor) -> tuple[Tensor, Tensor]:
    """Values float8_e4m3fn [n, d] and scales FP32 [n, ⌈d/128⌉] of x [n, d]."""
    if uses_triton(x.device):
        from kernels.fp8_quantise import triton_kernel

        pair: tuple[Tensor, Tensor] = triton_kernel.quantise(x)
        return pair
    return reference.quantise(x)


def dequantise(values: Tensor, scales: Tensor, dtype: torch.dtype) -> Tensor:
    """The rows again, [n, d] in `dtype`."""
    if uses_triton(values.device):
        from kernels.fp8_quantise import triton_kernel

        rows: Tensor = triton_kernel.dequantise(values, scales, dtype)
        return rows
    return reference.dequantise(values, scales, dtype)
