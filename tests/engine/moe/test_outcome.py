from dataclasses import fields, replace
from fractions import Fraction

import torch

from engine.moe.ledger import Ledger
from engine.moe.outcome import LedgerOutcome
from engine.moe.spec import RouterKind
from tests.engine.moe.plain import make_spec, plan

EXPERTS, RANKS = 8, 2


def ledger(seed: int, *, decided_together: bool) -> Ledger:
    """What two ranks said of a layer; one row for the group once they decided together."""
    random = torch.Generator().manual_seed(seed)
    counts = torch.randint(0, 9, (RANKS, EXPERTS), generator=random)
    tallies = torch.randint(0, 9, (RANKS, 4), generator=random)
    executed = torch.randint(0, 9, (RANKS, RANKS), generator=random)
    told = Ledger(
        counts=counts, expert_counts=counts.sum(0), rows=torch.zeros(RANKS, RANKS),
        executed=executed, tallies=tallies,
        tokens=(9, 9), compute_nanoseconds=(0, 0),
    )  # fmt: skip
    if not decided_together:
        return told
    return replace(
        told, tallies=tallies.sum(0, keepdim=True), executed=executed.sum(0, keepdim=True)
    )


def test_layers_that_overflow_and_layers_that_do_not_are_counted_together():
    spec = make_spec(RouterKind.SIGMOID_BIAS, experts=EXPERTS)
    apart = [
        LedgerOutcome(plan(Fraction(1)), spec, ledger(seed, decided_together=False))
        for seed in range(3)
    ]
    mixed = [
        LedgerOutcome(plan(Fraction(1)), spec, ledger(seed, decided_together=seed == 1))
        for seed in range(3)
    ]
    wanted, found = apart[0].together(apart), mixed[0].together(mixed)
    for field in fields(wanted):
        one, other = getattr(wanted, field.name), getattr(found, field.name)
        assert torch.equal(one, other) if isinstance(one, torch.Tensor) else one == other
