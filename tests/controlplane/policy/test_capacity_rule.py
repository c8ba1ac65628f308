import pytest

from controlplane.policy.builtin import DEFAULT
from controlplane.policy.decide import decide
from controlplane.policy.decision import Reason
from controlplane.policy.knob import Knob
from controlplane.slo.status import SloName, SloState
from tests.support.snapshots import (
    OVERFLOW_AT_RUNG,
    SLOTS,
    config_state,
    known,
    load,
    made,
    slo,
    slos,
    snapshot,
)


def test_overflow_raises_c_to_the_rung_that_holds_the_target_under_a_lease():
    decision = decide(snapshot(slos=slos(overflow=0.06)), DEFAULT)
    assert made(decision) == (Knob.CAPACITY_FACTOR, "1.25", "1.5")
    assert decision.reason is Reason.OVERFLOW_BREACH
    assert known(decision.proposal).lease_seconds == DEFAULT.lease_seconds
    assert "3.0%" in decision.explanation


@pytest.mark.parametrize(
    ("overflow", "at_rung", "target"),
    [
        (0.06, {"1.5": 0.05, "1.75": 0.03, "2": 0.01}, "1.5"),
        (0.16, {"1.5": 0.05, "1.75": 0.03, "2": 0.01}, "1.75"),
        (0.16, {"1.5": 0.03, "1.75": 0.02, "2": 0.01}, "1.5"),
        (0.50, {"1.5": 0.45, "1.75": 0.40, "2": 0.38}, "1.75"),
    ],
)
def test_steps_are_bounded_one_rung_or_two_above_15_percent(overflow, at_rung, target):
    facts = load(overflow_at_rung={"1.25": overflow, **at_rung})
    decision = decide(snapshot(slos=slos(overflow=overflow), load=facts), DEFAULT)
    assert made(decision)[2] == target


def test_steps_are_judged_at_the_present_c_although_the_breach_began_at_another():
    facts = load(overflow_at_rung={"1.25": 0.18, "1.5": 0.16, "1.75": 0.14})
    decision = decide(snapshot(slos=slos(overflow=0.14), load=facts), DEFAULT)
    assert made(decision)[2] == "1.75"
    assert "at C = 1.25 throughout they would have had 18.0%" in decision.explanation


def test_equal_slots_at_neighbouring_rungs_make_the_knob_inert():
    facts = load(
        overflow_at_rung=dict.fromkeys(OVERFLOW_AT_RUNG, 0.09),
        slots_at_rung=dict.fromkeys(SLOTS, 8),
    )
    decision = decide(snapshot(slos=slos(overflow=0.09), load=facts), DEFAULT)
    assert decision.proposal is None
    assert decision.reason is Reason.KNOB_INERT
    assert decision.escalate


def test_slots_alone_tell_that_the_knob_is_inert_when_rungs_were_not_counted():
    facts = load(overflow_at_rung={}, slots_at_rung=dict.fromkeys(SLOTS, 8))
    decision = decide(snapshot(slos=slos(overflow=0.09), load=facts), DEFAULT)
    assert decision.reason is Reason.KNOB_INERT


@pytest.mark.parametrize(
    ("knobs", "reason"),
    [
        ({"capacity_factor": "2"}, Reason.AT_BOUND),
        ({"capacity_factor": None}, Reason.KNOB_INERT),
        ({"overflow_mode": "virtual"}, Reason.KNOB_INERT),
    ],
)
def test_where_c_cannot_help_a_human_is_asked(knobs, reason):
    state = config_state(**knobs)
    decision = decide(snapshot(slos=slos(overflow=0.2), config=state), DEFAULT)
    assert (decision.proposal, decision.reason, decision.escalate) == (None, reason, True)


def test_overflow_and_tpot_in_breach_without_room_pages():
    decision = decide(snapshot(slos=slos(tpot=0.07, overflow=0.09)), DEFAULT)
    assert decision.proposal is None
    assert decision.reason is Reason.NO_FEASIBLE_ACTION
    assert decision.escalate
    assert "fewer running sequences overflow more" in decision.explanation


def test_overflow_and_tpot_in_breach_raise_c_when_tpot_has_room_at_that_rung():
    tpot = slo(SloName.TPOT, 0.03, SloState.BREACHED)
    both = (slos()[0], tpot, slo(SloName.OVERFLOW, 0.09))
    assert made(decide(snapshot(slos=both), DEFAULT)) == (Knob.CAPACITY_FACTOR, "1.25", "1.5")
