"""Group-wide counts of one layer in one step, from every rank's counts."""

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache

import torch
from torch import Tensor

from contract.runtime_config import CapacityDomain
from engine.moe import capacity
from engine.moe.context import CapacityOutcome, CapacityPlan
from engine.moe.ledger import Ledger
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


def count_outcome(plan: CapacityPlan, spec: MoESpec, ledger: Ledger) -> CapacityOutcome:
    """The outcome of one layer, the same on every rank.

    Args:
        plan: capacity of the live generation.
        spec: the layer.
        ledger: everyone's counts, with the tallies and executed counts as decided.
    """
    by_group = plan.domain is CapacityDomain.GLOBAL
    by_domain = ledger.expert_counts.unsqueeze(0) if by_group else ledger.counts
    limits, slots = _limits(plan, spec, ledger.tokens, ledger.counts.device)
    beyond = (by_domain - limits).clamp_min_(0).sum((1, 2))
    dropless = plan.capacity_factor is None
    rerouted, spilled, dropped, all_dropped = ledger.tallies.sum(0).unbind()
    card_counts = ledger.executed.sum(0)
    return CapacityOutcome(
        expert_counts=ledger.expert_counts,
        tokens=sum(ledger.tokens),
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
