"""Router scores, biased and group-limited choice, gates, in plain torch."""

import torch
from torch import Tensor

TINY = 1e-20


def topk_gating(
    logits: Tensor,
    bias: Tensor | None,
    top_k: int,
    *,
    sigmoid: bool,
    renormalise: bool,
    scale: float = 1.0,
    num_groups: int = 1,
    groups_kept: int = 1,
) -> tuple[Tensor, Tensor]:
    """Choose the top-k experts by biased score and gate them by unbiased score.

    Args:
        logits: FP32 [T, E].
        bias: FP32 [E], moves the choice only; None is zero.
        top_k: k.
        sigmoid: independent sigmoid scores; otherwise a softmax over all experts.
        renormalise: gates are divided by their sum.
        scale: factor on the gates.
        num_groups: equal runs of expert ids.
        groups_kept: a token uses as many runs, those whose two best biased scores sum highest.

    Returns:
        expert ids int64 [T, k], best first, the lower id first among equals; gates FP32 [T, k].
    """
    scores = logits.sigmoid() if sigmoid else logits.softmax(-1)
    biased = scores if bias is None else scores + bias
    if groups_kept < num_groups:
        grouped = biased.view(len(biased), num_groups, biased.shape[1] // num_groups)
        worth = grouped.topk(min(2, grouped.shape[-1]), dim=-1).values.sum(-1)
        kept = worth.sort(dim=-1, descending=True, stable=True).indices[:, :groups_kept]
        barred = torch.ones_like(worth).scatter(1, kept, 0.0).bool().unsqueeze(-1)
        biased = grouped.masked_fill(barred, float("-inf")).flatten(1)
    ids = biased.sort(dim=-1, descending=True, stable=True).indices[:, :top_k]
    gates = scores.gather(1, ids)
    if renormalise:
        gates = gates / (gates.sum(-1, keepdim=True) + TINY)
    return ids, gates * scale
