import pytest

from controlplane.detectors.finding import FindingState
from controlplane.policy.backtest import Incident, backtest
from controlplane.policy.builtin import DEFAULT, FAST, SEED_LITERAL
from controlplane.policy.decision import Reason
from controlplane.policy.knob import Knob
from controlplane.policy.snapshot import BiasFacts
from controlplane.slo.status import SloName
from tests.support.snapshots import GOOD, NOW, drift, drifted, load, slos, snapshot

TICK = 10.0
AT_RUNG = {"1": 0.2, "1.1": 0.15, "1.25": 0.09, "1.5": 0.03, "1.75": 0.01, "2": 0.0}


def history(kinds):
    """A recorded day in which nobody acted: `.` healthy, `o` overflow, `b` a drifted bias."""
    made = []
    for index, kind in enumerate(kinds):
        at = NOW + index * TICK
        if kind == "o":
            facts = load(overflow_ratio=0.09, overflow_at_rung=AT_RUNG)
            made.append(snapshot(at=at, slos=slos(overflow=0.09), load=facts))
        elif kind == "b":
            facts = load(overflow_ratio=0.09)
            made.append(drifted(at=at, slos=slos(overflow=0.09), load=facts))
        else:
            calm = load(overflow_at_rung={**AT_RUNG, "1.25": 0.02}, overflow_ratio=0.02)
            made.append(snapshot(at=at, slos=slos(calm=True), load=calm))
    return made


def test_a_quiet_history_has_no_action_in_any_run():
    report = backtest(history("." * 50), DEFAULT)
    assert report.policy.actions == ()
    assert report.always.actions == ()
    assert report.policy.reasons == {Reason.HEALTHY: 50}
    assert report.seconds == 490.0


def test_raising_c_saves_overflow_against_never_acting():
    report = backtest(history("." * 5 + "o" * 60), DEFAULT)
    acted = report.policy.actions[0]
    assert (acted.knob, acted.before, acted.after) == (Knob.CAPACITY_FACTOR, "1.25", "1.5")
    assert report.never.breach_seconds[SloName.OVERFLOW] == pytest.approx(600)
    assert report.policy.breach_seconds[SloName.OVERFLOW] < 100
    assert report.never.actions == ()


def test_a_rollback_ends_the_drift_of_the_replay():
    truth = Incident(name="drift", onset=NOW + 50, end=NOW + 650, knobs=(Knob.ROUTER_BIAS,))
    report = backtest(history("." * 5 + "b" * 60), FAST, incidents=[truth])
    assert [a.knob for a in report.policy.actions if not a.relax] == [Knob.ROUTER_BIAS]
    assert report.policy.delays == {"drift": 0.0}
    assert report.policy.false_actions == 0
    assert report.never.delays == {"drift": None}


def test_acts_outside_incidents_are_false():
    report = backtest(
        history("." * 5 + "o" * 30), DEFAULT,
        incidents=[Incident(name="other", onset=0, end=1, knobs=(Knob.ROUTER_BIAS,))],
    )  # fmt: skip
    assert report.policy.false_actions == 1


def test_always_act_flaps_where_the_policy_holds_still():
    noisy = []
    for index in range(60):
        over = index % 2
        facts = load(overflow_ratio=0.06 if over else 0.01, overflow_at_rung=AT_RUNG)
        noisy.append(
            snapshot(
                at=NOW + index * TICK, load=facts,
                slos=(*slos()[:2], slos(overflow=0.06 if over else 0.01)[2].model_copy(
                    update={"state": "met"}
                )),
            )
        )  # fmt: skip
    report = backtest(noisy, DEFAULT)
    assert report.policy.actions == ()
    assert report.always.actions != ()


def test_the_articles_rule_never_comes_back_down():
    report = backtest(history("o" * 5 + "." * 40), SEED_LITERAL)
    assert [action.after for action in report.policy.actions] == ["2"]


def test_recorded_holds_are_kept_and_recorded_changes_are_not():
    frozen = [s.model_copy(update={"frozen": True}) for s in history("o" * 10)]
    assert backtest(frozen, DEFAULT).policy.reasons == {Reason.FROZEN: 10}
    busy = [s.model_copy(update={"in_flight": "recorded"}) for s in history("o" * 10)]
    assert backtest(busy, DEFAULT).policy.actions != ()


def test_a_history_without_snapshots_is_empty():
    report = backtest([], DEFAULT)
    assert (report.snapshots, report.seconds) == (0, 0.0)


def test_a_drift_whose_good_bias_is_live_already_is_left_alone():
    bias = BiasFacts(configured=GOOD, live=GOOD, last_known_good=GOOD)
    odd = [drifted(at=NOW + i, bias=bias, findings=(drift(FindingState.FIRING),)) for i in range(5)]
    assert backtest(odd, FAST).policy.actions == ()
