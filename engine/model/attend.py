"""What both attentions share: a step's plan, one sequence's attention, and mixing by weights."""

from collections.abc import Callable
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn import functional

from engine.model.attention_plan import AttentionPlan, DecodeGroup, PrefillSequence
from engine.model.mask import Visibility

_BAG_ROWS = 1024
"""Rows of one sequence, over its heads, up to which a bag of them beats a product (one core)."""


def attend_by_plan(
    query: Tensor,
    plan: AttentionPlan,
    *,
    value_dim: int,
    decode: Callable[[Tensor, DecodeGroup], Tensor],
    prefill: Callable[[Tensor, PrefillSequence], Tensor],
) -> Tensor:
    """Attend every token of a step, each in the way that the plan says.

    Args:
        query: [T, H, ·].
        plan: of this step.
        value_dim: width of a head's output.
        decode: queries [S, H, ·] of a group → [S, H, value_dim].
        prefill: queries [n, H, ·] of one sequence → [n, H, value_dim].

    Returns:
        [T, H · value_dim].
    """
    if len(plan.decode) == 1 and plan.decode[0].rows is None:
        return decode(query, plan.decode[0]).flatten(1)
    mixed = query.new_empty(query.shape[0], query.shape[1], value_dim)
    for group in plan.decode:
        if group.rows is not None:
            chosen = query.index_select(0, group.rows)
            mixed.index_copy_(0, group.rows, decode(chosen, group))
    for sequence in plan.prefill:
        rows = slice(sequence.start, sequence.stop)
        mixed[rows] = prefill(query[rows], sequence)
    return mixed.flatten(1)


def attend_sequence(
    query: Tensor, key: Tensor, value: Tensor, visibility: Visibility, scale: float
) -> Tensor:
    """One sequence: query [n, H, w] at the last n of C positions, key and value [C, H, ·]."""
    length, context = query.shape[0], key.shape[0]
    query, key, value = (part.transpose(0, 1).unsqueeze(0) for part in (query, key, value))
    if length == context and visibility.is_plain(context):
        mixed = functional.scaled_dot_product_attention(
            query, key, value, is_causal=True, scale=scale
        )
    else:
        places = torch.arange(context, device=query.device)
        seen = visibility.mask(places[context - length :, None], places[None])
        mixed = functional.scaled_dot_product_attention(
            query, key, value, attn_mask=seen, scale=scale
        )
    return mixed[0].transpose(0, 1)


def mix(weights: Tensor, value: Tensor) -> Tensor:
    """Weighted sums of rows: weights [B, h, C] and value [B, C, w] give [B, h, w].

    With the few heads and short contexts of small decode steps on the CPU a product of matrices
    mostly packs what it reads; there the rows are added up where they lie.
    """
    batch, heads, context = weights.shape
    plain = value.is_cpu and value.dtype is torch.float32 and not torch.is_grad_enabled()
    if not plain or heads * context > _BAG_ROWS:
        return torch.bmm(weights, value)
    rows, starts = _bags(batch, heads, context)
    mixed = torch.embedding_bag(
        value.reshape(-1, value.shape[-1]), rows, starts, mode=0,
        per_sample_weights=weights.reshape(-1),
    )[0]  # fmt: skip
    return mixed.view(batch, heads, -1)


@lru_cache(maxsize=16)
def _bags(batch: int, heads: int, context: int) -> tuple[Tensor, Tensor]:
    """Rows of every head of every sequence, int32 [B · h · C], and where each head's begin."""
    with torch.inference_mode(mode=False):
        rows = torch.arange(batch * context, dtype=torch.int32).view(batch, 1, context)
        starts = torch.arange(0, batch * heads * context, context, dtype=torch.int32)
        return rows.expand(batch, heads, context).reshape(-1), starts
