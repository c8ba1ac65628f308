"""FP8 E4M3 quantise and dequantise: one program per row and tile of 128."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.fp8_quantise.reference import E4M3_MAX, TILE

SMALLEST_NORMAL = tl.constexpr(2.0**-6)
MANTISSA_STEP = tl.constexpr(2.0**-3)
ROUNDER = tl.constexpr(1.5 * 2.0**23)
"""Added and taken away, it leaves an FP32 number rounded to an integer, ties to even."""


@triton.jit
def _on_the_grid(value):
    """Round to the nearest E4M3 value, ties to even, still in FP32.

    So the cast that follows is exact, whatever rounding the target's cast would apply.
    """
    power = (value.to(tl.int32, bitcast=True) & 0x7F800000).to(tl.float32, bitcast=True)
    step = tl.maximum(power, SMALLEST_NORMAL) * MANTISSA_STEP
    return ((value / step + ROUNDER) - ROUNDER) * step


@triton.jit
def quantise_kernel(x, values, scales, width, tiles, LARGEST: tl.constexpr, TILE: tl.constexpr):
    """One tile: scale by its largest magnitude, round to E4M3."""
    row = tl.program_id(0).to(tl.int64)
    tile = tl.program_id(1)
    column = tile * TILE + tl.arange(0, TILE)
    inside = column < width
    value = tl.load(x + row * width + column, mask=inside, other=0.0).to(tl.float32)
    peak = tl.max(tl.abs(value), axis=0)
    scale = tl.where(peak > 0, peak / LARGEST, 1.0)
    scaled = tl.minimum(tl.maximum(value / scale, -LARGEST), LARGEST)
    tl.store(values + row * width + column, _on_the_grid(scaled).to(tl.float8e4nv), mask=inside)
    tl.store(scales + row * tiles + tile, scale)


@triton.jit
def dequantise_kernel(values, scales, out, width, tiles, TILE: tl.constexpr):
    """One tile: value times scale."""
    row = tl.program_id(0).to(tl.int64)
    tile = tl.program_id(1)
    column = tile * TILE + tl.arange(0, TILE)
    inside = column < width
    value = tl.load(values + row * width + column, mask=inside, other=0.0).to(tl.float32)
    scale = tl.load(scales + row * tiles + tile)
    tl.store(out + row * width + column, (value * scale).to(out.dtype.element_ty), mask=inside)


def quantise(x: Tensor) -> tuple[Tensor, Tensor]:
    """See `kernels.fp8_quantise.reference`."""
    n, width = x.shape
    tiles = triton.cdiv(width, TILE)
    values = torch.empty(n, width, dtype=torch.float8_e4m3fn, device=x.device)
    scales = torch.empty(n, tiles, dtype=torch.float32, device=x.device)
    if values.numel():
        quantise_kernel[(n, tiles)](
            x.contiguous(), values, scales, width, tiles, LARGEST=E4M3_MAX, TILE=TILE
        )
    return values, scales


def dequantise(values: Tensor, scales: Tensor, dtype: torch.dtype) -> Tensor:
    """See `kernels.fp8_quantise.reference`."""
    n, width = values.shape
    tiles = scales.shape[1]
    out = torch.empty(n, width, dtype=dtype, device=values.device)
    if out.numel():
        dequantise_kernel[(n, tiles)](
            values.contiguous(), scales.contiguous(), out, width, tiles, TILE=TILE
        )
    return out
