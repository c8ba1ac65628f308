"""Weighted sum of a token's expert outputs, in plain torch."""

from torch import Tensor


def weighted_combine(rows: Tensor, place: Tensor, gates: Tensor) -> Tensor:
    """Σ_j gates[t, j] · rows[place[t, j]], accumulated in FP32.

    Args:
        rows: [N, d], expert outputs in sorted order.
        place: int64 [n, k], row of each assignment; -1 adds nothing, whatever its gate.
        gates: FP32 [n, k].

    Returns:
        [n, d] in the dtype of rows.
    """
    if not len(rows):
        return rows.new_zeros(len(place), rows.shape[1])
    held = place >= 0
    terms = rows[place.clamp_min(0)].float() * gates.masked_fill(~held, 0).unsqueeze(-1)
    return terms.masked_fill_(~held.unsqueeze(-1), 0).sum(1).to(rows.dtype)
