"""Weighted sum of a token's expert outputs: un-permute and combine in one pass."""

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK_D = 128


@triton.jit
def weighted_combine_kernel(
    rows, place, gates, out, width, TOP_K: tl.constexpr, BLOCK_D: tl.constexpr
):
    """One token and one tile of columns: the gated sum of its k rows."""
    token = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D)
    inside = column < width
    total = tl.zeros([BLOCK_D], tl.float32)
    for j in tl.static_range(TOP_K):
        row = tl.load(place + token * TOP_K + j)
        gate = tl.load(gates + token * TOP_K + j)
        value = tl.load(rows + row * width + column, mask=inside & (row >= 0), other=0.0)
        total += tl.where(row >= 0, gate, 0.0) * value.to(tl.float32)
    tl.store(out + token * width + column, total.to(out.dtype.element_ty), mask=inside)


def weighted_combine(rows: Tensor, place: Tensor, gates: Tensor) -> Tensor:
    """See `kernels.weighted_combine.reference`."""
    tokens, top_k = place.shape
    width = rows.shape[1]
    out = torch.empty(tokens, width, dtype=rows.dtype, device=rows.device)
    if out.numel():
        grid = (tokens, triton.cdiv(width, BLOCK_D))
        weighted_combine_kernel[grid](
            rows.contiguous(), place.contiguous(), gates.contiguous(), out, width,
            TOP_K=top_k, BLOCK_D=BLOCK_D,
        )  # fmt: skip
    return out
