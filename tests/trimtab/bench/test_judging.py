"""What counts as detected, named, acted right and a false alarm, on snapshots made by hand."""

import pytest

from controlplane.detectors.finding import Attribution, Cause, DetectorName, Finding, FindingState
from controlplane.policy.builtin import DEFAULT
from controlplane.policy.knob import Knob
from controlplane.slo.status import SloName
from engine.simulation.run import EPOCH
from engine.simulation.scenario import Scenario, Truth
from tests.support.snapshots import blamed, drift, drifted, slo, snapshot
from trimtab.bench.judging import AGAIN_SECONDS, HELD, Judged, judge_snapshots

WARM, ONSET, END, TICK = 600.0, 1000.0, 3000.0, 10.0
BIAS = Truth(
    onset=ONSET, end=END, causes=("bias",), detectors=("bias_drift",), signs=("overflow",),
    knobs=("router_bias",), eases=("capacity_factor",),
)  # fmt: skip
QUIET = Truth()


def scenario(truth: Truth) -> Scenario:
    return Scenario(name="by-hand", title="By hand", warm_seconds=WARM, seconds=9000.0, truth=truth)


def judged(truth: Truth, *seen) -> Judged:
    """`seen`: pairs of seconds on the scenario's clock and a snapshot's maker."""
    result = Judged(scenario(truth))
    for at, make in seen:
        result.see(make(at=EPOCH + at))
    return result


def firing(detector: DetectorName) -> Finding:
    return drift().model_copy(update={"detector": detector})


def of_traffic(**parts: object):
    return drifted(**{"attribution": blamed(Cause.TRAFFIC), **parts})


def in_a_row(make, count: int, *, start: float = ONSET + TICK):
    return [(start + index * TICK, make) for index in range(count)]


def test_the_delay_runs_from_the_onset_to_the_first_labelled_sign():
    shown = judged(BIAS, (ONSET + 40, snapshot), (ONSET + 70, drifted), (ONSET + 90, drifted))
    assert shown.detected_after == 70


def test_an_slo_in_breach_is_a_sign_only_where_the_label_says_so():
    def overflowing(**parts):
        return snapshot(slos=(slo(SloName.OVERFLOW, 0.2),), **parts)

    def late(**parts):
        return snapshot(slos=(slo(SloName.TPOT, 0.2),), **parts)

    assert judged(BIAS, (ONSET + 20, late)).detected_after is None
    assert judged(BIAS, (ONSET + 20, late), (ONSET + 30, overflowing)).detected_after == 30


def test_silence_is_a_sign_where_the_label_says_stale():
    silent = BIAS.model_copy(update={"signs": ("stale",), "detectors": ()})

    def stale(**parts):
        return snapshot(fresh=False, **parts)

    assert judged(silent, (ONSET + 20, stale)).detected_after == 20
    assert judged(silent, (ONSET + 20, drifted)).detected_after is None


def test_a_sign_before_the_onset_or_after_the_end_is_no_detection():
    assert judged(BIAS, (ONSET - TICK, drifted), (END + TICK, drifted)).detected_after is None


def test_a_cause_is_named_only_after_it_was_held():
    assert judged(BIAS, *in_a_row(drifted, HELD - 1)).named == set()
    assert judged(BIAS, *in_a_row(drifted, HELD)).named == {"bias"}


def test_another_cause_in_between_begins_the_row_anew():
    broken = [
        *in_a_row(drifted, HELD - 1),
        (ONSET + 500, of_traffic),
        *in_a_row(drifted, HELD - 1, start=ONSET + 600),
    ]
    assert judged(BIAS, *broken).named == set()


def test_an_attribution_without_an_acting_detector_names_nothing():
    def quiet(**parts):
        return drifted(findings=(drift(FindingState.CLEAR),), **parts)

    assert judged(BIAS, *in_a_row(quiet, 2 * HELD)).named == set()


def test_a_second_cause_makes_the_answer_wrong():
    right = judged(BIAS, *in_a_row(drifted, HELD))
    assert right.right_cause
    both = judged(BIAS, *in_a_row(drifted, HELD), *in_a_row(of_traffic, HELD, start=ONSET + 900))
    assert both.named == {"bias", "traffic"}
    assert not both.right_cause


def test_where_the_label_is_unknown_naming_none_is_right():
    truth = BIAS.model_copy(update={"causes": ("unknown",)})

    def unexplained(**parts):
        return drifted(
            attribution=Attribution(
                cause=Cause.UNKNOWN, bias_changed=False, excess_removed_ratio=None, message="?"
            ),
            **parts,
        )

    assert judged(truth, *in_a_row(unexplained, HELD)).right_cause
    assert not judged(truth, *in_a_row(drifted, HELD)).right_cause


@pytest.mark.parametrize("detector", list(DetectorName))
def test_only_detectors_that_lead_to_an_act_raise_a_false_alarm(detector: DetectorName):
    def found(**parts):
        return snapshot(findings=(firing(detector),), **parts)

    acting = {DetectorName.BIAS_DRIFT, DetectorName.LOAD_CHANGE, DetectorName.STRAGGLER}
    assert judged(QUIET, (WARM + TICK, found)).alarms == int(detector in acting)


def test_an_alarm_that_goes_on_is_one_and_one_after_an_hour_of_silence_another():
    lasting = [(WARM + TICK + step, drifted) for step in range(0, 1200, 60)]
    assert judged(QUIET, *lasting).alarms == 1
    again = (lasting[-1][0] + AGAIN_SECONDS + TICK, drifted)
    assert judged(QUIET, *lasting, again).alarms == 2


def test_the_healthy_beginning_and_the_labelled_time_raise_no_false_alarm():
    assert judged(BIAS, (WARM / 2, drifted), *in_a_row(drifted, 9)).alarms == 0
    assert judged(BIAS, (ONSET - TICK, drifted)).alarms == 1


def test_a_rollback_in_the_labelled_time_is_the_right_act_and_no_act_is_not():
    def over(make):
        at = [WARM + TICK * index for index in range(1, int((END - WARM) / TICK))]
        made = (make if t > ONSET else snapshot for t in at)
        return judge_snapshots(
            scenario(BIAS),
            (each(at=EPOCH + t) for t, each in zip(at, made, strict=True)),
            DEFAULT,
        )

    acted = over(drifted)
    assert acted.run is not None
    assert [action.knob for action in acted.run.actions] == [Knob.ROUTER_BIAS]
    assert acted.right_cause
    assert acted.right_action
    idle = over(snapshot)
    assert not idle.right_cause
    assert not idle.right_action


def test_an_act_before_the_onset_is_wrong_whatever_comes_after():
    early = judge_snapshots(
        scenario(BIAS),
        (drifted(at=EPOCH + WARM + TICK * index) for index in range(1, 200)),
        DEFAULT,
    )
    assert early.run is not None
    assert early.run.actions[0].at < EPOCH + ONSET
    assert early.right_cause
    assert not early.right_action
