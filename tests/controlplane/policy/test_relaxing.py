import pytest

from controlplane.policy.builtin import DEFAULT, FAST
from controlplane.policy.decide import decide
from controlplane.policy.decision import Reason
from controlplane.policy.knob import Knob
from tests.support.snapshots import (
    change,
    config_state,
    known,
    load,
    made,
    slos,
    snapshot,
)


def relaxing(**parts):
    return snapshot(slos=slos(calm=True), **parts)


def test_calm_brings_concurrency_back_by_a_share_of_the_baseline():
    decision = decide(relaxing(config=config_state(max_concurrency=40)), DEFAULT)
    assert made(decision) == (Knob.MAX_CONCURRENCY, 40, 44)
    assert known(decision.proposal).relax
    assert known(decision.proposal).lease_seconds == DEFAULT.lease_seconds


def test_the_last_step_to_the_baseline_carries_no_lease():
    decision = decide(relaxing(config=config_state(max_concurrency=62)), DEFAULT)
    assert made(decision)[2] == 64
    assert known(decision.proposal).lease_seconds is None


@pytest.mark.parametrize(("chunk", "target"), [(256, 512), (2048, 1024)])
def test_calm_brings_the_chunk_back_one_step(chunk, target):
    decision = decide(relaxing(config=config_state(chunk_size=chunk)), DEFAULT)
    assert made(decision) == (Knob.CHUNK_SIZE, chunk, target)


def test_c_comes_down_only_where_the_lower_rung_holds_three_percent():
    state = config_state(capacity_factor="1.75")
    high = load(overflow_at_rung_peak={"1.5": 0.035})
    low = load(overflow_at_rung_peak={"1.5": 0.02})
    held = decide(relaxing(config=state, load=high), DEFAULT)
    assert (held.proposal, held.reason) == (None, Reason.GUARD)
    assert not held.escalate
    assert made(decide(relaxing(config=state, load=low), DEFAULT))[2] == "1.5"


def test_c_never_goes_below_the_baseline():
    decision = decide(relaxing(), DEFAULT)
    assert decision.reason is Reason.HEALTHY


def test_nothing_is_relaxed_before_it_is_calm_or_when_the_budget_is_low():
    state = config_state(max_concurrency=40)
    assert decide(snapshot(config=state), DEFAULT).reason is Reason.HEALTHY
    poor = snapshot(slos=slos(calm=True, budget=0.1), config=state)
    assert decide(poor, DEFAULT).reason is Reason.BUDGET_SPENT
    assert made(decide(poor, FAST))[0] is Knob.MAX_CONCURRENCY  # the demo relaxes regardless


def test_a_knob_that_cools_down_leaves_the_way_to_the_next():
    state = config_state(max_concurrency=40, chunk_size=256)
    changes = (change(Knob.MAX_CONCURRENCY, 100, -1), change(Knob.CHUNK_SIZE, 900, -1))
    decision = decide(relaxing(config=state, changes=changes), DEFAULT)
    assert made(decision)[0] is Knob.CHUNK_SIZE
    assert decision.alternatives[0].lost_because is Reason.COOLDOWN
