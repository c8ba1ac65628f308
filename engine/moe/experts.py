"""The routed experts of one rank: permute, two grouped products with SwiGLU, weighted sum.

On CPU a padded batched product wins while every expert has few rows, and `grouped_mm` wins when the
padding would outweigh it. Both are differentiable.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

PADDED_ROWS_PER_ASSIGNMENT = 4
"""Pad while the padded buffer holds at most this many rows per real one (measured on CPU)."""
PADDED_MAX_ROWS = 32
"""And while the fullest expert has at most this many rows."""


@dataclass(frozen=True, slots=True)
class Grouping:
    """Assignments sorted by expert: the permutation and where each expert's run lies.

    Attributes:
        order: int64 [N], position in the flat [n·k] assignments of each sorted row.
        counts: int64 [S], rows of each physical expert.
        ends: int32 [S], prefix sum of counts.
    """

    order: Tensor
    counts: Tensor
    ends: Tensor


def group_by_expert(slots: Tensor, num_slots: int) -> Grouping:
    """Sort the assignments of int64 `slots` [n, k] by physical expert; -1 (not here) is left out.

    The sort is stable, so the same input always gives the same order.
    """
    flat = slots.flatten()
    order = flat.argsort(stable=True)
    counts = torch.bincount(flat + 1, minlength=num_slots + 1)
    absent = flat.numel() - int(counts[1:].sum())
    counts = counts[1:]
    return Grouping(order=order[absent:], counts=counts, ends=counts.cumsum(0).to(torch.int32))


def run_experts(
    x: Tensor,
    slots: Tensor,
    gates: Tensor,
    gate_up: Tensor,
    down: Tensor,
    *,
    gate_on_input: bool = False,
) -> Tensor:
    """Σ_j gates[i, j] · expert_{slots[i, j]}(x[i]) for every row i.

    Args:
        x: [n, d] in the model's dtype.
        slots: int64 [n, k], local physical expert, or -1 where this rank has nothing to do.
        gates: FP32 [n, k].
        gate_up: [S, d, 2f].
        down: [S, f, d].
        gate_on_input: Σ_j expert(gates · x) in place of Σ_j gates · expert(x).

    Returns:
        [n, d] in the dtype of x; a row without any expert is zero.
    """
    n, top_k = slots.shape
    grouping = group_by_expert(slots, gate_up.shape[0])
    rows = grouping.order // top_k
    if rows.numel() == 0:
        return torch.zeros_like(x)
    weight = gates.flatten()[grouping.order].unsqueeze(-1)
    inputs = x[rows]
    if gate_on_input:
        inputs = inputs * weight.to(x.dtype)
    fullest = int(grouping.counts.max())
    if _padding_pays(fullest, gate_up.shape[0], rows.numel(), x.device):
        out = _padded(inputs, grouping.counts, fullest, gate_up, down)
    elif _rows_are_aligned(gate_up, down):
        out = _grouped(inputs, grouping.ends, gate_up, down)
    else:
        out = _one_by_one(inputs, grouping.counts, gate_up, down)
    out = out.float() if gate_on_input else out.float() * weight
    total = torch.zeros(n, x.shape[1], dtype=torch.float32, device=x.device)
    return total.index_add(0, rows, out).to(x.dtype)


def swiglu(gate_and_up: Tensor) -> Tensor:
    """silu(gate) · up of [..., 2f] → [..., f]."""
    gate, up = gate_and_up.chunk(2, dim=-1)
    return functional.silu(gate) * up


def _padding_pays(fullest: int, num_slots: int, rows: int, device: torch.device) -> bool:
    if device.type != "cpu" or fullest > PADDED_MAX_ROWS:
        return False
    return fullest * num_slots <= PADDED_ROWS_PER_ASSIGNMENT * rows


def _padded(
    sorted_x: Tensor, counts: Tensor, fullest: int, gate_up: Tensor, down: Tensor
) -> Tensor:
    num_slots = gate_up.shape[0]
    shift = torch.arange(num_slots, device=counts.device) * fullest - (counts.cumsum(0) - counts)
    cells = torch.arange(len(sorted_x), device=counts.device) + shift.repeat_interleave(counts)
    buffer = sorted_x.new_zeros(num_slots * fullest, sorted_x.shape[1])
    buffer = buffer.index_copy(0, cells, sorted_x).view(num_slots, fullest, -1)
    return torch.bmm(swiglu(torch.bmm(buffer, gate_up)), down).flatten(0, 1)[cells]


def _rows_are_aligned(gate_up: Tensor, down: Tensor) -> bool:
    """`grouped_mm` wants rows of whole 16 bytes in every operand."""
    widths = (gate_up.shape[1], gate_up.shape[2], down.shape[1])
    return all(width * gate_up.element_size() % 16 == 0 for width in widths)


def _one_by_one(sorted_x: Tensor, counts: Tensor, gate_up: Tensor, down: Tensor) -> Tensor:
    """For odd widths that `grouped_mm` refuses."""
    runs = torch.split(sorted_x, counts.tolist())
    return torch.cat(
        [swiglu(run @ gate_up[slot]) @ down[slot] for slot, run in enumerate(runs) if len(run)]
    )


def _grouped(sorted_x: Tensor, ends: Tensor, gate_up: Tensor, down: Tensor) -> Tensor:
    hidden = swiglu(functional.grouped_mm(sorted_x, gate_up, offs=ends))
    return functional.grouped_mm(hidden, down, offs=ends)
