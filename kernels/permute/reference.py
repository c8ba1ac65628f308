"""Sort assignments by expert, gather their rows, and bring rows back, in plain torch."""

import torch
from torch import Tensor


def sort_by_expert(slots: Tensor, num_slots: int) -> tuple[Tensor, Tensor, Tensor]:
    """A stable counting sort of assignments by physical expert.

    Args:
        slots: int64 [n, k]; -1 sorts nowhere.
        num_slots: S.

    Returns:
        order: int64 [n·k], flat assignment of each sorted place; the first N places count, N being
            the assignments that are not -1, and the rest are -1.
        place: int64 [n, k], the inverse: sorted place of each assignment, -1 where the slot is -1.
        ends: int32 [S], prefix sum of rows per expert.
    """
    flat = slots.flatten()
    held = (flat >= 0).nonzero().squeeze(-1)
    by_expert = held[flat[held].argsort(stable=True)]
    order = torch.full_like(flat, -1)
    order[: len(by_expert)] = by_expert
    place = torch.full_like(flat, -1)
    place[by_expert] = torch.arange(len(by_expert), device=flat.device)
    counts = torch.bincount(flat[held], minlength=num_slots)
    return order, place.view(slots.shape), counts.cumsum(0).to(torch.int32)


def permute(x: Tensor, order: Tensor, top_k: int) -> Tensor:
    """Rows [len(order), d] of x [n, d] in sorted order; assignment a belongs to row a // k."""
    return x[order.clamp_min(0) // top_k].masked_fill_((order < 0).unsqueeze(-1), 0)


def unpermute(rows: Tensor, place: Tensor) -> Tensor:
    """The inverse: [n, k, d], rows [N, d] at the place of every assignment, zero where it is -1."""
    if not len(rows):
        return rows.new_zeros(*place.shape, rows.shape[1])
    back = rows[place.clamp_min(0)]
    return back.masked_fill_((place < 0).unsqueeze(-1), 0)
