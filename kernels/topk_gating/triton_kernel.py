"""Router scores, biased and group-limited choice, gates: one program per token."""

import torch
import triton
import triton.language as tl
from torch import Tensor

TINY = tl.constexpr(1e-20)


@triton.jit
def topk_gating_kernel(
    logits, bias, ids, gates, num_experts, scale,
    TOP_K: tl.constexpr, SIGMOID: tl.constexpr, HAS_BIAS: tl.constexpr, RENORMALISE: tl.constexpr,
    NUM_GROUPS: tl.constexpr, GROUPS_KEPT: tl.constexpr,
    BLOCK_E: tl.constexpr, BLOCK_G: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """One token: score, bias, groups, k passes of argmax, gates."""
    token = tl.program_id(0).to(tl.int64)
    expert = tl.arange(0, BLOCK_E)
    real = expert < num_experts
    logit = tl.load(logits + token * num_experts + expert, mask=real, other=float("-inf"))
    if SIGMOID:
        score = 1.0 / (1.0 + tl.exp(-logit))
    else:
        weight = tl.exp(logit - tl.max(logit, axis=0))
        score = weight / tl.sum(weight, axis=0)
    biased = score
    if HAS_BIAS:
        biased = score + tl.load(bias + expert, mask=real, other=0.0)
    biased = tl.where(real, biased, float("-inf"))

    if GROUPS_KEPT < NUM_GROUPS:
        size = num_experts // NUM_GROUPS
        group_of = expert // size
        group = tl.arange(0, BLOCK_G)
        worth = tl.full([BLOCK_G], float("-inf"), tl.float32)
        for g in tl.static_range(NUM_GROUPS):
            mine = tl.where(real & (group_of == g), biased, float("-inf"))
            first = tl.argmax(mine, axis=0)
            rest = tl.where(expert == first, float("-inf"), mine)
            second = tl.max(rest, axis=0)
            total = tl.max(mine, axis=0) + tl.where(size > 1, second, 0.0)
            worth = tl.where(group == g, total, worth)
        allowed = tl.zeros([BLOCK_E], tl.int1)
        for _ in tl.static_range(GROUPS_KEPT):
            best = tl.argmax(worth, axis=0)
            allowed = allowed | (group_of == best)
            worth = tl.where(group == best, float("-inf"), worth)
        biased = tl.where(allowed & real, biased, float("-inf"))

    column = tl.arange(0, BLOCK_K)
    chosen_id = tl.zeros([BLOCK_K], tl.int64)
    chosen = tl.zeros([BLOCK_K], tl.float32)
    for j in tl.static_range(TOP_K):
        best = tl.argmax(biased, axis=0)
        value = tl.sum(tl.where(expert == best, score, 0.0), axis=0)
        chosen_id = tl.where(column == j, best.to(tl.int64), chosen_id)
        chosen = tl.where(column == j, value, chosen)
        biased = tl.where(expert == best, float("-inf"), biased)
    if RENORMALISE:
        chosen = chosen / (tl.sum(chosen, axis=0) + TINY)
    kept = column < TOP_K
    tl.store(ids + token * TOP_K + column, chosen_id, mask=kept)
    tl.store(gates + token * TOP_K + column, chosen * scale, mask=kept)


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
    """See `kernels.topk_gating.reference`."""
    tokens, experts = logits.shape
    ids = torch.empty(tokens, top_k, dtype=torch.int64, device=logits.device)
    gates = torch.empty(tokens, top_k, dtype=torch.float32, device=logits.device)
    if tokens:
        topk_gating_kernel[(tokens,)](
            logits.contiguous(), logits if bias is None else bias.contiguous(), ids, gates,
            experts, scale, TOP_K=top_k, SIGMOID=sigmoid, HAS_BIAS=bias is not None,
            RENORMALISE=renormalise, NUM_GROUPS=num_groups, GROUPS_KEPT=groups_kept,
            BLOCK_E=triton.next_power_of_2(experts), BLOCK_G=triton.next_power_of_2(num_groups),
            BLOCK_K=triton.next_power_of_2(top_k),
        )  # fmt: skip
    return ids, gates
