"""Ragged grouped product: tiles of rows that never cross an expert, found on the device."""

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK_M = 32
BLOCK_N = 64
BLOCK_K = 32


@triton.jit
def grouped_gemm_kernel(
    x, weights, out, ends, tile_ends, depth, width, stride_slot, stride_depth, stride_width,
    NUM_SLOTS: tl.constexpr, BLOCK_S: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """One tile of one expert's rows times one tile of its columns."""
    tile = tl.program_id(0)
    slots = tl.arange(0, BLOCK_S)
    last = tl.load(tile_ends + slots, mask=slots < NUM_SLOTS, other=2147483647)
    slot = tl.sum((last <= tile).to(tl.int32), axis=0)
    if slot < NUM_SLOTS:
        first_tile = tl.load(tile_ends + slot - 1, mask=slot > 0, other=0)
        start = tl.load(ends + slot - 1, mask=slot > 0, other=0).to(tl.int64)
        end = tl.load(ends + slot).to(tl.int64)
        row = start + (tile - first_tile) * BLOCK_M + tl.arange(0, BLOCK_M).to(tl.int64)
        column = tl.program_id(1).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
        held = row < end
        weight = weights + slot.to(tl.int64) * stride_slot
        total = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
        for k in range(0, depth, BLOCK_K):
            inner = k + tl.arange(0, BLOCK_K).to(tl.int64)
            a = tl.load(
                x + row[:, None] * depth + inner[None, :],
                mask=held[:, None] & (inner < depth)[None, :], other=0.0,
            )  # fmt: skip
            b = tl.load(
                weight + inner[:, None] * stride_depth + column[None, :] * stride_width,
                mask=(inner < depth)[:, None] & (column < width)[None, :], other=0.0,
            )  # fmt: skip
            total = tl.dot(a, b, acc=total, input_precision="ieee")
        tl.store(
            out + row[:, None] * width + column[None, :], total.to(out.dtype.element_ty),
            mask=held[:, None] & (column < width)[None, :],
        )  # fmt: skip


def grouped_gemm(x: Tensor, weights: Tensor, ends: Tensor) -> Tensor:
    """See `kernels.grouped_gemm.reference`; no synchronisation: the grid is an upper bound."""
    num_slots, depth, width = weights.shape
    out = torch.zeros(len(x), width, dtype=x.dtype, device=x.device)
    if not out.numel():
        return out
    counts = torch.diff(ends, prepend=ends.new_zeros(1))
    tile_ends = ((counts + BLOCK_M - 1) // BLOCK_M).cumsum(0).to(torch.int32)
    grid = (triton.cdiv(len(x), BLOCK_M) + num_slots, triton.cdiv(width, BLOCK_N))
    grouped_gemm_kernel[grid](
        x.contiguous(), weights, out, ends, tile_ends, depth, width, *weights.stride(),
        NUM_SLOTS=num_slots, BLOCK_S=triton.next_power_of_2(num_slots),
        BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_K=BLOCK_K,
    )  # fmt: skip
    return out
