"""Group-wide counts of layers from every rank's counts: all layers of several steps at once."""

from collections.abc import Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class LedgerOutcome:
    """One layer's `engine.moe.context.LayerOutcome`.

    Attributes:
        plan: capacity of the live generation.
        spec: the layer.
        ledger: everyone's counts, with the tallies and executed counts as decided.
    """

    plan: CapacityPlan
    spec: MoESpec
    ledger: Ledger

    @property
    def expert_counts(self) -> Tensor:
        """int64 [E], assignments over the EP group before capacity."""
        return self.ledger.expert_counts

    @property
    def rank_tokens(self) -> tuple[int, ...]:
        """Tokens of every rank in the step."""
        return self.ledger.tokens

    def together(self, layers: Sequence["LedgerOutcome"]) -> CapacityOutcome:
        """Count layers of steps alike, the same on every rank: a dozen operations for them all."""
        plan, tokens = self.plan, self.ledger.tokens
        ledgers = [layer.ledger for layer in layers]
        expert_counts = torch.stack([ledger.expert_counts for ledger in ledgers])
        by_domain = expert_counts.unsqueeze(1)
        if plan.domain is not CapacityDomain.GLOBAL:
            by_domain = torch.stack([ledger.counts for ledger in ledgers])
        limits, slots = _limits(plan, self.spec, tokens, expert_counts.device)
        beyond = (by_domain.unsqueeze(1) - limits).clamp_min_(0).sum((2, 3))
        dropless = plan.capacity_factor is None
        # Where ranks decided together the ledger has one row for the group, else one a rank.
        tallies = torch.stack([ledger.tallies.sum(0) for ledger in ledgers])
        rerouted, spilled, dropped, all_dropped = tallies.unbind(1)
        executed = [ledger.executed.sum(0) for ledger in ledgers if ledger.executed is not None]
        # A group of one computes on its only card whatever it does not drop.
        cards = torch.stack(executed) if executed else (expert_counts.sum(1) - dropped).unsqueeze(1)
        return CapacityOutcome(
            expert_counts=expert_counts,
            tokens=sum(tokens),
            slots=None if dropless else slots,
            overflow=torch.zeros_like(dropped) if dropless else beyond[:, -1],
            overflow_at_rung=beyond[:, :-1],
            rerouted=rerouted,
            spilled=spilled,
            dropped=dropped,
            executed=cards.sum(1),
            tokens_all_dropped=all_dropped,
            card_counts=cards,
        )


@lru_cache(maxsize=1024)
def _limits(
    plan: CapacityPlan, spec: MoESpec, tokens: tuple[int, ...], device: torch.device
) -> tuple[Tensor, int]:
    """Slots at every rung and at the live C, int64 [R + 1, domains, 1], and the live C's sum."""
    live = capacity.LADDER[-1] if plan.capacity_factor is None else plan.capacity_factor
    slots = [domain_slots(factor, plan, spec, tokens) for factor in (*capacity.LADDER, live)]
    with torch.inference_mode(mode=False):
        return torch.tensor(slots, device=device).unsqueeze(-1), sum(slots[-1])
