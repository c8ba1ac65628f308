"""Sort assignments by expert without a sort: histogram, prefix sum, then a place for each."""

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK_D = 128
BLOCK_N = 128


@triton.jit
def place_kernel(slots, ends, place, order, total, BLOCK_N: tl.constexpr):
    """One program per expert walks the assignments and numbers its own, in order."""
    slot = tl.program_id(0)
    following = tl.load(ends + slot - 1, mask=slot > 0, other=0).to(tl.int64)
    for start in range(0, total, BLOCK_N):
        offsets = start + tl.arange(0, BLOCK_N).to(tl.int64)
        inside = offsets < total
        mine = inside & (tl.load(slots + offsets, mask=inside, other=-1) == slot)
        taken = tl.cumsum(mine.to(tl.int64), axis=0)
        spot = following + taken - 1
        tl.store(place + offsets, spot, mask=mine)
        tl.store(order + spot, offsets, mask=mine)
        following += tl.sum(mine.to(tl.int64), axis=0)


@triton.jit
def gather_rows_kernel(rows, index, out, width, DIVISOR: tl.constexpr, BLOCK_D: tl.constexpr):
    """out[i] = rows[index[i] // DIVISOR], zeros where the index is negative."""
    i = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D)
    inside = column < width
    source = tl.load(index + i)
    row = tl.where(source < 0, 0, source) // DIVISOR
    value = tl.load(rows + row * width + column, mask=inside & (source >= 0), other=0.0)
    tl.store(out + i * width + column, value, mask=inside)


def sort_by_expert(slots: Tensor, num_slots: int) -> tuple[Tensor, Tensor, Tensor]:
    """See `kernels.permute.reference`."""
    flat = slots.contiguous().view(-1)
    counts = torch.zeros(num_slots + 1, dtype=torch.int64, device=slots.device)
    counts.scatter_add_(0, flat + 1, torch.ones_like(flat))
    ends = counts[1:].cumsum(0).to(torch.int32)
    place = torch.full_like(flat, -1)
    order = torch.full_like(flat, -1)
    if flat.numel():
        place_kernel[(num_slots,)](flat, ends, place, order, flat.numel(), BLOCK_N=BLOCK_N)
    return order, place.view(slots.shape), ends


def permute(x: Tensor, order: Tensor, top_k: int) -> Tensor:
    """See `kernels.permute.reference`."""
    return _gather(x, order, top_k)


def unpermute(rows: Tensor, place: Tensor) -> Tensor:
    """See `kernels.permute.reference`."""
    return _gather(rows, place.contiguous().view(-1), 1).view(*place.shape, rows.shape[1])


def _gather(rows: Tensor, index: Tensor, divisor: int) -> Tensor:
    width = rows.shape[1]
    out = torch.empty(index.numel(), width, dtype=rows.dtype, device=rows.device)
    if out.numel():
        grid = (index.numel(), triton.cdiv(width, BLOCK_D))
        gather_rows_kernel[grid](
            rows.contiguous(), index, out, width, DIVISOR=divisor, BLOCK_D=BLOCK_D
        )
    return out
