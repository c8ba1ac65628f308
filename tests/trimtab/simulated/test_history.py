"""Scenarios in process: windows, snapshots, and a backtest whose truth is known."""

import pytest

from controlplane.detectors.finding import Cause, DetectorName, FindingState
from controlplane.policy.backtest import backtest
from controlplane.policy.builtin import DEFAULT
from controlplane.policy.knob import Knob
from engine.simulation import scenario as scenarios
from engine.simulation.run import EPOCH, ScenarioRun
from trimtab.bench.detect import judge
from trimtab.bench.judging import judge_snapshots
from trimtab.simulated.history import SimulatedHistory, incidents_of
from trimtab.simulated.real_incidents import recorded_names, recorded_run
from trimtab.simulated.window import windows_of


def shortened(name, seconds, **engine):
    """A scenario from its onset less ten minutes on, in fewer seconds."""
    found = scenarios.load(name)
    assert found.truth.onset is not None
    earlier = found.truth.onset - 900.0
    moved = [event.model_copy(update={"at": event.at - earlier}) for event in found.events]
    truth = found.truth.model_copy(update={"onset": 900.0, "end": seconds})
    return found.model_copy(
        update={
            "events": tuple(moved), "truth": truth, "seconds": seconds, "warm_seconds": 600.0,
            "engine": found.engine.model_copy(update={"layers": 2, **engine}),
        }
    )  # fmt: skip


@pytest.fixture(scope="module")
def ramp():
    scenario = shortened("bias-ramp-fast", 1800.0)
    history = SimulatedHistory.of(scenario, DEFAULT)
    return scenario, history.policy, list(history.snapshots())


def test_a_window_a_tick_and_lost_ones_are_missing():
    windows = list(windows_of(ScenarioRun.of(shortened("telemetry-outage", 1800.0))))
    told = [window for _, arrived in windows for window in arrived]
    assert sum(1 for _, arrived in windows if not arrived) == 60
    assert max(window.missing for window in told) == 60
    assert all(window.covered_seconds == 10 for window in told)


def test_the_ramp_is_found_and_laid_to_the_bias(ramp):
    scenario, policy, snapshots = ramp
    judged = judge_snapshots(scenario, snapshots, policy)
    assert judged.right_cause
    assert judged.right_action
    assert judged.named == {"bias"}
    assert judged.alarms == 0
    assert judged.detected_after is not None
    assert judged.detected_after < 400


def test_before_the_onset_no_detector_that_acts_fires(ramp):
    _, _, snapshots = ramp
    early = [s for s in snapshots if 600 < s.at - EPOCH < 900]
    drift = [f.state for s in early for f in s.findings if f.detector is DetectorName.BIAS_DRIFT]
    assert set(drift) == {FindingState.CLEAR}
    assert all(s.attribution and s.attribution.cause is not Cause.BIAS for s in early)


def test_a_backtest_knows_the_truth_and_beats_never_acting(ramp):
    scenario, policy, snapshots = ramp
    report = backtest(snapshots, policy, incidents=incidents_of(scenario))
    assert any(action.knob is Knob.ROUTER_BIAS for action in report.policy.actions)
    delay = report.policy.delays[scenario.name]
    assert delay is not None
    assert delay < 500
    assert report.never.delays[scenario.name] is None


def test_the_same_seed_gives_the_same_snapshots(ramp):
    scenario, policy, snapshots = ramp
    shorter = scenario.model_copy(update={"seconds": 200.0})
    again = list(SimulatedHistory.of(shorter, policy).snapshots())
    assert again == snapshots[: len(again)]


def test_a_slow_rank_is_laid_to_the_rank_and_never_to_the_bias():
    scenario = shortened("slow-rank", 1200.0)
    judged = judge(ScenarioRun.of(scenario))
    assert judged.named == {"slow_rank"}
    assert judged.right_cause
    assert judged.right_action


@pytest.mark.skipif(not recorded_names(), reason="the recordings are not beside the checkout")
@pytest.mark.parametrize("name", recorded_names())
def test_a_recorded_hot_expert_is_found_and_not_laid_to_the_bias(name):
    judged = judge(recorded_run(name))
    assert judged.named == {"traffic"}
    assert judged.detected_after is not None
    assert judged.detected_after <= 120
    assert judged.alarms == 0
