"""Ragged grouped product, one expert after another, in plain torch."""

import torch
from torch import Tensor


def grouped_gemm(x: Tensor, weights: Tensor, ends: Tensor) -> Tensor:
    """x[i] @ weights[s] for the rows i of each expert s.

    Args:
        x: [N, a], rows sorted by expert; rows past the last end belong to none.
        weights: [S, a, b].
        ends: int32 [S], prefix sum of rows per expert; equal neighbours are an empty expert.

    Returns:
        [N, b]; rows past the last end are zero.
    """
    out = x.new_zeros(len(x), weights.shape[2])
    start = 0
    for slot, end in enumerate(ends.tolist()):
        if end > start:
            out[start:end] = torch.mm(x[start:end], weights[slot])
        start = end
    return out
