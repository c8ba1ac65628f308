"""Scenarios as they run: outages, restarts, clocks, drifts that a rollback ends, repeatability."""

import numpy as np
import pytest

from contract.frame_codec import encode
from engine.simulation import events
from engine.simulation.engine import SimulatedEngine
from engine.simulation.run import ScenarioRun
from engine.simulation.scenario import EngineSpec, Scenario, TrafficSpec
from engine.simulation.timeline import hot_experts, to_bfloat16

SMALL = EngineSpec(preset="deepseek-v3", ranks=32, layers=1)


def run_of(*happens, seconds=200.0, seed=0):
    scenario = Scenario(
        name="made", title="made", seconds=seconds, engine=SMALL, traffic=TrafficSpec(),
        events=tuple(happens),
    )  # fmt: skip
    return ScenarioRun.of(scenario, seed=seed)


def test_a_scenario_run_twice_is_identical():
    ramp = events.BiasRamp(kind="bias_ramp", at=20, seconds=50, relative=0.1, hot_by_rank=(2,) * 16)
    first, second = (
        [encode(frame) for _, told in run_of(ramp, seconds=100.0).frames() for frame in told]
        for _ in range(2)
    )
    assert first == second
    assert len(first) == 10


def test_lost_frames_are_counted_and_leave_a_hole():
    run = run_of(events.TelemetryOutage(kind="telemetry", mode="lose", at=50, seconds=50))
    told = [frame.header for _, frames in run.frames() for frame in frames]
    assert [header.sequence for header in told] == [*range(5), *range(10, 20)]
    assert told[5].dropped_before == 5


def test_held_frames_come_together_and_nothing_is_missing():
    run = run_of(events.TelemetryOutage(kind="telemetry", mode="hold", at=50, seconds=50))
    batches = [[f.header.sequence for f in frames] for _, frames in run.frames()]
    assert batches[4:11] == [[4], [], [], [], [], [], [5, 6, 7, 8, 9, 10]]


def test_a_restart_begins_a_new_boot():
    run = run_of(events.Restart(kind="restart", at=50, seconds=30))
    told = [frame.header for _, frames in run.frames() for frame in frames]
    boots = [header.boot_id for header in told]
    assert len(set(boots)) == 2
    assert told[boots.index(boots[-1])].sequence == 0
    assert len(told) == 17


def test_a_skewed_clock_shows_in_the_frames_time():
    run = run_of(events.ClockSkew(kind="clock", at=50, offset=90))
    starts = [frame.header.started_unix_seconds for _, frames in run.frames() for frame in frames]
    assert np.diff(starts).tolist()[4] == pytest.approx(100)


def test_a_ramp_rises_to_its_bias_and_a_rollback_ends_it():
    ramp = events.BiasRamp(kind="bias_ramp", at=20, seconds=50, relative=0.1, hot_by_rank=(2,) * 16)
    run = run_of(ramp)
    distances = []
    for index, (_, frames) in enumerate(run.frames()):
        distances.append(frames[0].header.bias_distance)
        if index == 9:
            run.engine.governed.roll_back()
    assert distances[9] == pytest.approx(0.1, abs=1e-3)
    assert distances[:9] == sorted(distances[:9])
    assert distances[10:] == [0.0] * 10


@pytest.mark.parametrize(("sign", "worse"), [(-1, True), (1, False)])
def test_a_regulator_with_the_wrong_sign_feeds_the_skew(sign, worse):
    rule = events.RegulatorRuns(kind="regulator", at=20, sign=sign, speed=2e-5)
    run = run_of(rule, seconds=600.0)
    skews = []
    for _, frames in run.frames():
        counts = frames[0].arrays["assignments"].sum(axis=0).astype(float)
        skews.append((counts.std(axis=1) / counts.mean(axis=1)).mean())
    assert (skews[-1] > skews[0] + 0.05) == worse
    if not worse:
        assert skews[-1] < skews[0]


def test_a_domain_shift_moves_the_load_and_not_the_bias():
    shift = events.TrafficShift(kind="traffic_shift", at=50, mix=(0, 1, 0))
    told = [frames[0] for _, frames in run_of(shift).frames()]
    shares = [
        f.arrays["assignments"].sum(axis=(0, 1)) / f.arrays["assignments"].sum() for f in told
    ]
    moved = np.abs(shares[-1] - shares[0]).sum() / 2
    assert moved > 2 * np.abs(shares[4] - shares[0]).sum() / 2
    assert told[-1].header.bias_distance == 0


def test_a_dead_expert_gets_nothing_and_the_others_its_share():
    dead = events.ForcedExpert(kind="forced_expert", at=50, expert=17, chance=0.0)
    told = [frames[0] for _, frames in run_of(dead).frames()]
    assert told[-1].arrays["assignments"][:, :, 17].sum() == 0
    assert told[0].arrays["assignments"][:, :, 17].sum() > 0


def test_hot_experts_lie_on_the_ranks_that_are_named():
    engine = SimulatedEngine(run_of().scenario.settings())
    assert hot_experts((3, 0, 1), engine) == [0, 1, 2, 16]


def test_bf16_keeps_eight_bits_of_mantissa():
    found = to_bfloat16(np.array([4.0, 4.01, 4.03, -0.3]))
    assert found.tolist() == pytest.approx([4.0, 4.0, 4.03125, -0.30078125])
