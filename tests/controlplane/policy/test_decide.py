import pytest

from controlplane.policy.builtin import DEFAULT, FAST, SEED_LITERAL
from controlplane.policy.decide import decide
from controlplane.policy.decision import Reason
from controlplane.policy.knob import Knob, Mode
from controlplane.slo.status import SloName, SloState
from tests.support.snapshots import (
    BAD,
    change,
    config_state,
    drifted,
    made,
    slo,
    slos,
    snapshot,
)


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ({"fresh": False, "data_age_seconds": 44.0}, Reason.STALE),
        ({"fresh": False, "data_age_seconds": None}, Reason.STALE),
        ({"reachable": False}, Reason.UNREACHABLE),
        ({"config": None}, Reason.UNREACHABLE),
        ({"frozen": True, "freeze_reason": "deploy"}, Reason.FROZEN),
        ({"config": config_state(frozen=True, router_bias=BAD)}, Reason.FROZEN),
        ({"in_flight": "action-1"}, Reason.IN_FLIGHT),
    ],
)
@pytest.mark.parametrize("policy", [DEFAULT, FAST, SEED_LITERAL], ids=lambda p: p.name)
def test_nothing_is_done_on_stale_frozen_or_busy_engines(parts, reason, policy):
    decision = decide(drifted(slos=slos(overflow=0.3), **parts), policy)
    assert decision.proposal is None
    assert decision.reason is reason


def test_a_healthy_engine_is_left_alone_and_says_so():
    decision = decide(snapshot(), DEFAULT)
    assert (decision.proposal, decision.reason) == (None, Reason.HEALTHY)


def test_inconclusive_slos_are_not_healthy():
    unsure = (slo(SloName.TTFT, 0.1, SloState.INCONCLUSIVE), *slos()[1:])
    decision = decide(snapshot(slos=unsure), DEFAULT)
    assert decision.reason is Reason.INCONCLUSIVE
    assert "ttft" in decision.explanation


def with_mode(knob, mode):
    rules = DEFAULT.knobs[knob].model_copy(update={"mode": mode})
    return DEFAULT.model_copy(update={"knobs": {**DEFAULT.knobs, knob: rules}})


def test_a_knob_that_is_off_is_told_and_not_moved():
    policy = with_mode(Knob.CAPACITY_FACTOR, Mode.OFF)
    decision = decide(snapshot(slos=slos(overflow=0.09)), policy)
    assert (decision.proposal, decision.reason) == (None, Reason.MODE_OFF)


def test_a_shadow_proposal_is_made_but_never_keeps_an_automatic_one_from_acting():
    policy = with_mode(Knob.ROUTER_BIAS, Mode.SHADOW)
    alone = decide(drifted(), policy)
    assert (made(alone)[0], alone.mode) == (Knob.ROUTER_BIAS, Mode.SHADOW)
    both = decide(drifted(slos=slos(overflow=0.09)), policy)
    assert (made(both)[0], both.mode) == (Knob.CAPACITY_FACTOR, Mode.AUTO)
    assert both.alternatives[0].lost_because is Reason.SHADOW


def test_the_flap_budget_holds_changes_and_reversals():
    breach = slos(overflow=0.09)
    six = tuple(change(Knob.CAPACITY_FACTOR, 60 * i + 60) for i in range(6, 0, -1))
    turns = tuple(change(Knob.CAPACITY_FACTOR, ago, d) for ago, d in
                  [(900, -1), (600, 1), (300, -1)])  # fmt: skip
    for changes in (six, turns):
        decision = decide(snapshot(slos=breach, changes=changes), DEFAULT)
        assert (decision.proposal, decision.reason) == (None, Reason.FLAP_BUDGET)
        assert decision.escalate
