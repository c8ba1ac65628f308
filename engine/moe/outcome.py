"""Group-wide counts of one layer in one step, from every rank's counts."""

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache

import torch
from torch import Tensor

from contract.runtime_config import CapacityDomain
from engine.moe import capacity
from engine.moe.context import CapacityOutcome, CapacityPlan
from engine.moe.spec import MoESpec


def domain_slots(
    capacity_factor: Fraction, plan: CapacityPlan, spec: MoESpec, tokens: Sequence[int]
) -> list[int]:
    """Capacity of one expert in every domain: one number, or one for each source rank.

    An idle source rank offers none, so that the sum is what the step really has.
    """
    sizes = [sum(tokens)] if plan.domain is CapacityDomain.GLOBAL else tokens
    return [
        capacity.slots(
            capacity_factor, tokens=size, top_k=spec.top_k, num_experts=spec.num_experts,
            cap_min=plan.cap_min if size or plan.domain is CapacityDomain.GLOBAL else 0,
        )
        for size in sizes
    ]  # fmt: skip


@lru_cache(maxsize=1024)
def _limits(
    plan: CapacityPlan, spec: MoESpec, tokens: tuple[int, ...], device: torch.device
) -> tuple[Tensor, int]:
    """Slots at every rung and at the live C, int64 [R + 1, domains, 1], and the live C's sum."""
    live = capacity.LADDER[-1] if plan.capacity_factor is None else plan.capacity_factor
    slots = [domain_slots(factor, plan, spec, tokens) for factor in (*capacity.LADDER, live)]
    with torch.inference_mode(mode=False):
        return torch.tensor(slots, device=device).unsqueeze(-1), sum(slots[-1])


def count_outcome(
    plan: CapacityPlan,
    spec: MoESpec,
    *,
    counts: Tensor,
    tokens: tuple[int, ...],
    tallies: Tensor,
    card_counts: Tensor,
) -> CapacityOutcome:
    """The outcome of one layer, the same on every rank.

    Args:
        plan: capacity of the live generation.
        spec: the layer.
        counts: int64 [M, E], assignments before capacity by source rank.
        tokens: tokens of every rank.
        tallies: int64 [4]: rerouted, spilled, dropped, tokens all dropped, over the group.
        card_counts: int64 [M], executed assignments by computing rank.
    """
    expert_counts = counts.sum(0)
    by_domain = expert_counts.unsqueeze(0) if plan.domain is CapacityDomain.GLOBAL else counts
    limits, slots = _limits(plan, spec, tokens, counts.device)
    beyond = (by_domain - limits).clamp_min_(0).sum((1, 2))
    dropless = plan.capacity_factor is None
    rerouted, spilled, dropped, all_dropped = tallies.unbind()
    return CapacityOutcome(
        expert_counts=expert_counts,
        tokens=sum(tokens),
        slots=None if dropless else slots,
        overflow=beyond.new_zeros(()) if dropless else beyond[-1],
        overflow_at_rung=beyond[:-1],
        rerouted=rerouted,
        spilled=spilled,
        dropped=dropped,
        executed=card_counts.sum(),
        tokens_all_dropped=all_dropped,
        card_counts=card_counts,
    )
