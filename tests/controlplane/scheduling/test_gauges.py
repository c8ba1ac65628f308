"""Series of an evaluation: what cannot be said has no series."""

from controlplane.metrics import Instruments
from controlplane.scheduling.gauges import EvaluationGauges
from controlplane.slo.status import ErrorBudget, SloName, SloState, SloStatus, TierStatus
from tests.support.snapshots import slo, snapshot

LABELS = 'engine="engine-0",slo="ttft"'


def ttft(
    state: SloState, *, bad: int, total: int, budget: float | None, long_seconds: int = 60
) -> SloStatus:
    tier = TierStatus(
        tier="act-fast", state=state, short_seconds=10, long_seconds=long_seconds,
        burn_short=2.0, burn_long=2.0, bad=bad, total=total, bad_ratio_low=0.0,
        threshold_burn=14.4,
    )  # fmt: skip
    told = slo(SloName.TTFT, 0.1, state)
    left = None if budget is None else ErrorBudget(remaining_ratio=budget, seconds=3600.0)
    return told.model_copy(update={"tiers": (tier,), "budget": left})


def shown(*statuses: SloStatus) -> list[str]:
    """The SLO series after evaluations that saw these, in turn."""
    instruments = Instruments()
    gauges = EvaluationGauges(instruments)
    for status in statuses:
        gauges.show(snapshot(slos=(status,)))
    lines = instruments.render().decode().splitlines()
    return [line for line in lines if line.startswith("trimtab_slo_")]


MET = ttft(SloState.MET, bad=2, total=100, budget=0.8)


def test_a_judged_slo_has_its_share_burn_and_budget():
    assert sorted(shown(MET)) == [
        f"trimtab_slo_bad_ratio{{{LABELS}}} 0.02",
        f"trimtab_slo_budget_remaining_ratio{{{LABELS}}} 0.8",
        f'trimtab_slo_burn_rate_ratio{{{LABELS},window="60s"}} 2.0',
    ]


def test_an_slo_that_turns_inconclusive_or_stale_loses_its_series():
    assert shown(MET, ttft(SloState.INCONCLUSIVE, bad=1, total=1, budget=None)) == []
    assert shown(MET, ttft(SloState.STALE, bad=2, total=100, budget=None)) == []


def test_a_window_that_was_lengthened_leaves_none_behind():
    longer = ttft(SloState.MET, bad=2, total=50, budget=None, long_seconds=600)
    burns = [line for line in shown(MET, longer) if "burn" in line]
    assert burns == [f'trimtab_slo_burn_rate_ratio{{{LABELS},window="600s"}} 2.0']
