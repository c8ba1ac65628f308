"""Long burn tiers and error budgets count the stored hours; the governor's tiers do not."""

from dataclasses import replace

import numpy as np
import pytest

from controlplane.slo.evaluate import evaluate
from controlplane.slo.older import NOTHING, OlderCounts, counts_of
from controlplane.slo.settings import SloSettings
from controlplane.slo.status import SloState, SloStatus
from tests.support.engine_windows import START, histogram, window

SETTINGS = SloSettings()
HOURS = 71


def hours(*, bad: int, overflow: float = 0.01, count: int = HOURS) -> OlderCounts:
    """Hours before START, each of 10,000 requests of which `bad` were slow."""
    cells = {
        name: histogram(name, good=10_000 - bad, bad=bad, threshold=limit)
        for name, limit in (("ttft", 0.2), ("tpot", 0.05))
    }
    arrays = {"assignments": np.full((2, 2, 16), 1e5), "overflow": [32e5 * overflow] * 2}
    told = window(seconds=3600.0, by_generation={1: cells}, arrays=arrays)
    starts = [START - 3600.0 * (count - i) for i in range(count)]
    return counts_of([replace(told, start=start, end=start + 3600.0) for start in starts])


def judged(older: OlderCounts, *, bad: int = 0) -> dict[str, SloStatus]:
    cells = {
        name: histogram(name, good=100 - bad, bad=bad, threshold=limit)
        for name, limit in (("ttft", 0.2), ("tpot", 0.05))
    }
    arrays = {"assignments": np.full((2, 2, 16), 1000.0), "overflow": [10.0, 10.0]}
    windows = [window(i, by_generation={1: cells}, arrays=arrays) for i in range(60)]
    return {found.slo: found for found in evaluate(windows, START + 600.0, SETTINGS, older)}


def test_a_tier_of_three_days_counts_three_days():
    tiers = {tier.tier: tier for tier in judged(hours(bad=200))["ttft"].tiers}
    assert (tiers["ticket"].bad, tiers["ticket"].total) == (HOURS * 200, HOURS * 10_000 + 6000)
    assert tiers["page-slow"].total == 6 * 10_000 + 6000
    assert tiers["act-slow"].total == 6000


def test_an_old_burn_opens_a_ticket_and_never_makes_the_governor_act():
    found = judged(hours(bad=300))["tpot"]
    assert found.state is SloState.MET
    states = {tier.tier: tier.state for tier in found.tiers}
    assert states["ticket"] is SloState.BREACHED
    assert states["act-fast"] is states["act-slow"] is SloState.MET


def test_the_budget_is_of_the_stored_days_and_the_governors_of_ten_minutes():
    found = judged(hours(bad=200))["ttft"]
    assert found.budget_remaining_ratio == 1.0
    assert found.budget is not None
    wanted = 1.0 - HOURS * 200 / (HOURS * 10_000 + 6000) / 0.01
    assert found.budget.remaining_ratio == pytest.approx(wanted)
    assert found.budget.seconds == pytest.approx(HOURS * 3600.0 - 1800.0 + 600.0)


def test_without_a_past_the_budget_says_how_little_it_counts():
    found = judged(NOTHING)["ttft"]
    assert found.budget is not None
    assert found.budget.seconds == pytest.approx(595.0)


def test_the_overflow_budget_is_known_from_the_past_that_ten_minutes_are_too_short_for():
    assert judged(NOTHING)["overflow"].budget is None
    untouched = judged(hours(bad=0))["overflow"].budget
    spent = judged(hours(bad=0, overflow=0.06))["overflow"].budget
    assert untouched is not None
    assert untouched.remaining_ratio == 1.0
    assert spent is not None
    assert spent.remaining_ratio == pytest.approx(1.0 - HOURS * 360 / (HOURS * 360 + 60) / 0.01)


def test_a_budget_of_long_ago_is_forgotten():
    found = judged(hours(bad=5000, count=200))["ttft"]
    assert found.budget is not None
    assert found.budget.seconds < SETTINGS.budget_seconds


def test_intervals_are_cut_by_their_ends_and_their_starts():
    older = hours(bad=0, count=5)
    assert len(older.before(START - 3600.0).starts) == 4
    assert len(older.since(START - 3600.0).starts) == 1
    both = older.before(START - 3600.0).then(older.since(START - 3600.0))
    np.testing.assert_array_equal(both.ends, older.ends)
    np.testing.assert_array_equal(both.latencies["ttft"], older.latencies["ttft"])
