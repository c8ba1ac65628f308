"""The routed experts of one rank: permute, two grouped products with SwiGLU, weighted combine.

On CUDA the Triton kernels run. On CPU small steps take the direct form. Others sort assignments by
expert, and the grouped product takes one of two shapes: padded to the fullest expert, one batched
product wins while padding wastes little; else `grouped_mm` runs expert by expert. Gathers are
`index_select` and the combine is `embedding_bag`, which fuses gather, weight and sum: several times
faster there than advanced indexing. Both shapes are differentiable.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from engine.moe.direct_experts import direct_pays, run_direct
from engine.moe.swiglu import swiglu
from kernels import grouped_gemm, permute, weighted_combine
from kernels.backend import uses_triton

SPARED_PER_EXPERT = 40_000
"""Multiply-adds that one expert's own call costs in `grouped_mm`: padding may waste as many."""


@dataclass(frozen=True, slots=True)
class Grouping:
    """Assignments sorted by expert.

    Attributes:
        order: int64 [N], position in the flat [n·k] assignments of each sorted row.
        experts: int64 [N], local physical expert of each sorted row.
        counts: int64 [S], rows of each expert.
        fullest: rows of the fullest expert.
        absent: assignments that this rank does not compute.
    """

    order: Tensor
    experts: Tensor
    counts: Tensor
    fullest: int
    absent: int


def run_experts(
    x: Tensor,
    slots: Tensor,
    gates: Tensor,
    gate_up: Tensor,
    down: Tensor,
    *,
    counts: Tensor | None = None,
    gate_on_input: bool = False,
) -> Tensor:
    """Σ_j gates[i, j] · expert_{slots[i, j]}(x[i]) for every row i.

    Args:
        x: [n, d] in the model's dtype.
        slots: int64 [n, k], local physical expert, or -1 where this rank has nothing to do.
        gates: FP32 [n, k].
        gate_up: [S, d, 2f].
        down: [S, f, d].
        counts: int64 [S], assignments of each slot, where they have been counted.
        gate_on_input: Σ_j expert(gates · x) in place of Σ_j gates · expert(x).

    Returns:
        [n, d] in the dtype of x; a row without any expert is zero.
    """
    if uses_triton(x.device):
        return _run_kernels(x, slots, gates, gate_up, down, gate_on_input=gate_on_input)
    num_slots = gate_up.shape[0]
    if counts is None:
        counts = torch.bincount(slots.flatten() + 1, minlength=num_slots + 1)[1:]
    held: list[int] = counts.tolist()
    absent = slots.numel() - sum(held)
    if absent == slots.numel():
        return torch.zeros_like(x)
    occupied = num_slots - held.count(0)
    if direct_pays(slots.numel() - absent, occupied, SPARED_PER_EXPERT, gate_up, down):
        return run_direct(
            x, slots, gates, gate_up, down, absent=absent, gate_on_input=gate_on_input
        )
    grouping = _group(slots.flatten(), counts, absent, max(held))
    tokens = torch.div(grouping.order, slots.shape[1], rounding_mode="floor")
    on_input = gates.flatten()[grouping.order].to(x.dtype) if gate_on_input else None
    if _padding_pays(grouping, gate_up):
        out, place = _padded(x, tokens, on_input, grouping, gate_up, down)
    else:
        rows = x.index_select(0, tokens)
        rows = rows if on_input is None else rows * on_input.unsqueeze(-1)
        ends = grouping.counts.cumsum(0).to(torch.int32)
        hidden = swiglu(grouped_gemm.grouped_gemm(rows, gate_up, ends))
        out = grouped_gemm.grouped_gemm(hidden, down, ends)
        place = torch.arange(len(rows), device=x.device)
    return _combine(out, place, grouping, slots, None if gate_on_input else gates)


def _group(flat: Tensor, counts: Tensor, absent: int, fullest: int) -> Grouping:
    """Sort the flat slots, stable, so that the same input always gives the same order.

    On the CPU NumPy sorts 16-bit integers by radix: a fifth of the time of a sort of 64-bit ones.
    """
    if flat.device.type == "cpu" and len(counts) < torch.iinfo(torch.int16).max:
        order = torch.from_numpy(flat.to(torch.int16).numpy().argsort(kind="stable"))
        experts = flat.index_select(0, order)
    else:
        experts, order = flat.sort(stable=True)
    return Grouping(order[absent:], experts[absent:], counts, fullest, absent)


def _padding_pays(grouping: Grouping, gate_up: Tensor) -> bool:
    num_slots, depth, width = gate_up.shape
    wasted = (grouping.fullest * num_slots - len(grouping.order)) * depth * width
    return wasted <= SPARED_PER_EXPERT * num_slots


def _padded(
    x: Tensor,
    tokens: Tensor,
    on_input: Tensor | None,
    grouping: Grouping,
    gate_up: Tensor,
    down: Tensor,
) -> tuple[Tensor, Tensor]:
    """Outputs [S · fullest, d] and the cell of every sorted row.

    Cells that hold no row repeat the first one; nobody reads what they give.
    """
    num_slots, fullest = gate_up.shape[0], grouping.fullest
    counts = grouping.counts
    shift = torch.arange(num_slots, device=x.device) * fullest - (counts.cumsum(0) - counts)
    cells = shift.index_select(0, grouping.experts)
    cells += torch.arange(len(cells), device=x.device)
    row_of = cells.new_zeros(num_slots * fullest)
    row_of.scatter_(0, cells, torch.arange(len(cells), device=x.device))
    rows = x.index_select(0, tokens.index_select(0, row_of))
    if on_input is not None:
        rows = rows * on_input.index_select(0, row_of).unsqueeze(-1)
    gate_and_up = torch.bmm(rows.view(num_slots, fullest, -1), gate_up).flatten(0, 1)
    # The activation runs on real rows alone: it costs more than the two gathers around it.
    hidden = swiglu(gate_and_up.index_select(0, cells)).index_select(0, row_of)
    return torch.bmm(hidden.view(num_slots, fullest, -1), down).flatten(0, 1), cells


def _combine(
    out: Tensor, place: Tensor, grouping: Grouping, slots: Tensor, gates: Tensor | None
) -> Tensor:
    """Back to the tokens: Σ of their rows of `out`, FP32, in its dtype; gates None are ones."""
    inverse = place.new_empty(slots.numel()).scatter_(0, grouping.order, place)
    table = out.float()
    if not grouping.absent:
        total = functional.embedding_bag(
            inverse.view(slots.shape), table, mode="sum", per_sample_weights=gates
        )
        return total.to(out.dtype)
    held = slots >= 0
    starts = held.sum(1).cumsum(0)
    total = functional.embedding_bag(
        inverse[held.flatten()], table, starts - held.sum(1), mode="sum",
        per_sample_weights=None if gates is None else gates[held],
    )  # fmt: skip
    return total.to(out.dtype)


def _run_kernels(
    x: Tensor, slots: Tensor, gates: Tensor, gate_up: Tensor, down: Tensor, *, gate_on_input: bool
) -> Tensor:
    """The same on CUDA, without a synchronisation; not differentiable."""
    order, place, ends = permute.sort_by_expert(slots, gate_up.shape[0])
    rows = permute.permute(x, order, slots.shape[1])
    if gate_on_input:
        rows *= gates.flatten()[order.clamp_min(0)].unsqueeze(-1).to(x.dtype)
        gates = torch.ones_like(gates)
    hidden = swiglu(grouped_gemm.grouped_gemm(rows, gate_up, ends))
    out = grouped_gemm.grouped_gemm(hidden, down, ends)
    return weighted_combine.weighted_combine(out, place, gates)
