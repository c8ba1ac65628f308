"""Small steps on CPU: every assignment reads its expert's weights where they lie.

A step of a few assignments per expert is bound by calls and padding, not by arithmetic. Here both
products are one `embedding_bag` each, a weighted sum of rows of the weights:

- up: hidden[a] = Σ_i x[a, i] · gate_up[e, i, :], a bag of d rows for each assignment a;
- down: out[t] = Σ_a gate[a] · Σ_j hidden[a, j] · down[e, j, :], a bag of f rows for each of the
  token's assignments, so that un-permuting, weighting and adding up cost nothing.

No sort, no padding, and skew does not matter. FP32 and without gradients.
"""

from functools import lru_cache

import torch
from torch import Tensor

from engine.moe.swiglu import swiglu

MULTIPLY_ADD_COST = 5
"""A multiply-add here costs as much as this many in a grouped product (measured, one core)."""
LOAD_COST = 12
"""Loading an expert's weights once costs as much as this many rows through a grouped product."""
SPARED = 2_500_000
"""Multiply-adds worth the sorting and padding that this form does without."""


def direct_pays(
    assignments: int, occupied: int, call_cost: int, gate_up: Tensor, down: Tensor
) -> bool:
    """Whether the direct form is the cheaper one and possible.

    Args:
        assignments: N that this rank computes.
        occupied: experts with any.
        call_cost: multiply-adds that one expert's own call costs in a grouped product.
        gate_up: [S, d, 2f].
        down: [S, f, d].
    """
    if gate_up.dtype is not torch.float32 or torch.is_grad_enabled():
        return False
    expert = gate_up.shape[1] * gate_up.shape[2] + down.shape[1] * down.shape[2]
    here = assignments * expert * (MULTIPLY_ADD_COST - 1)
    return here <= occupied * (call_cost + expert * LOAD_COST) + SPARED


def run_direct(
    x: Tensor, slots: Tensor, gates: Tensor, gate_up: Tensor, down: Tensor, *,
    absent: int, gate_on_input: bool,
) -> Tensor:  # fmt: skip
    """As `run_experts`, with `absent` of the slots -1 and at least one that is not."""
    count, top_k = slots.shape
    experts, weights = slots.flatten(), gates.flatten().unsqueeze(1)
    if absent:
        held = experts >= 0
        assignments = held.nonzero().squeeze(1)
        experts, weights = experts[assignments], weights[assignments]
        inputs = x.index_select(0, torch.div(assignments, top_k, rounding_mode="floor"))
        ends = held.view(slots.shape).sum(1).cumsum(0)
        starts = torch.cat((ends.new_zeros(1), ends[:-1])).to(torch.int32) * down.shape[1]
    else:
        inputs = x.unsqueeze(1).expand(-1, top_k, -1).reshape(count * top_k, -1)
        starts = _starts(count, top_k * down.shape[1], x.device)
    if gate_on_input:
        inputs = inputs * weights
    depth = gate_up.shape[1]
    hidden = swiglu(_bags(gate_up, experts, inputs, _starts(len(experts), depth, x.device)))
    if not gate_on_input:
        hidden *= weights
    return _bags(down, experts, hidden, starts)


def _bags(weights: Tensor, experts: Tensor, factors: Tensor, starts: Tensor) -> Tensor:
    """Σ of factors [N, depth] times the rows of weights[experts], [S, depth, w], by bag: [n, w].

    `starts` int32 [n] is where each bag begins among the N · depth rows.
    """
    num_slots, depth, width = weights.shape
    rows = _rows(num_slots, depth, weights.device).index_select(0, experts).view(-1)
    # The operation itself: its wrapper in torch.nn.functional costs as much again at decode.
    return torch.embedding_bag(
        weights.view(-1, width), rows, starts, mode=0, per_sample_weights=factors.reshape(-1)
    )[0]


@lru_cache(maxsize=16)
def _rows(num_slots: int, depth: int, device: torch.device) -> Tensor:
    """The rows of every expert's weights, int32 [S, depth]: half of int64 to read."""
    with torch.inference_mode(mode=False):
        rows = torch.arange(num_slots * depth, dtype=torch.int32, device=device)
        return rows.view(num_slots, depth)


@lru_cache(maxsize=64)
def _starts(bags: int, rows: int, device: torch.device) -> Tensor:
    """Where bags of so many rows each begin, int32 [bags]."""
    with torch.inference_mode(mode=False):
        return torch.arange(0, bags * rows, rows, dtype=torch.int32, device=device)
