"""Frames of a simulated engine: deterministic, marked, consistent, and moved by its knobs."""

import itertools
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest

from contract.frame import ARRAYS
from contract.frame_codec import decode, encode
from contract.runtime_config import OverflowMode
from engine.simulation.cost.presets import preset
from engine.simulation.cost.step import Layout
from engine.simulation.engine import SimulatedEngine
from engine.simulation.model import SimulatedModel
from engine.simulation.serving.traffic import FittedWorkload
from engine.simulation.settings import SimulationSettings, default_runtime

MODEL = SimulatedModel.make(preset("deepseek-v3"), layers=2)


def engine(seed=0, rate=20.0, **runtime):
    config = default_runtime(32).model_copy(update=runtime)
    workload = FittedWorkload(rate)
    return SimulatedEngine(
        SimulationSettings("engine-0", MODEL, config, workload, layout=Layout(32), seed=seed)
    )


def frames(simulated, count=12, seconds=1.0):
    return [simulated.tick(seconds, 1.7e9 + i * seconds) for i in range(count)]


@pytest.fixture(scope="module")
def run():
    return frames(engine())


def test_the_same_seed_gives_the_same_frames(run):
    again = frames(engine(), 3)
    assert [encode(frame) for frame in again] == [encode(frame) for frame in run[:3]]
    assert encode(frames(engine(seed=1), 1)[0]) != encode(run[0])


def test_frames_say_that_they_are_simulated_and_survive_the_codec(run):
    for frame in run:
        assert frame.header.simulated
        assert decode(encode(frame)).header == frame.header


def test_sequence_and_steps_count_on_without_holes(run):
    assert [frame.header.sequence for frame in run] == list(range(12))
    for before, after in itertools.pairwise(run):
        assert after.header.step_first == before.header.step_last + 1


def test_assignments_are_tokens_times_k_in_every_layer(run):
    for frame in run:
        for phase, tokens in enumerate(frame.header.tokens):
            assert (frame.arrays["assignments"][phase].sum(axis=1) == tokens * 8).all()


def test_overflow_is_what_was_rerouted_spilled_and_dropped(run):
    for frame in run:
        a = {name: values.astype(np.int64) for name, values in frame.arrays.items()}
        assert (a["overflow"] == a["rerouted"] + a["spilled"] + a["dropped"]).all()
        assert (a["executed"] == a["assignments"].sum(axis=(0, 2)) - a["dropped"]).all()
        assert (a["card_assignments"].sum(axis=1) == a["executed"]).all()
        assert (np.diff(a["overflow_at_rung"], axis=0) <= 0).all()


def test_request_buckets_of_a_period_add_up_to_its_seconds(run):
    told = [frame for frame in run if frame.header.period_seconds]
    assert len(told) == 1
    seconds = sum(f.arrays["assignments"].astype(np.int64).sum(axis=0) for f in run[:10])
    assert (told[0].arrays["bucket_assignments"].sum(axis=0) == seconds).all()


def test_every_array_of_the_contract_is_told_but_what_if_of_an_unchanged_bias(run):
    told = set().union(*(frame.arrays for frame in run))
    missing = set(ARRAYS) - told
    assert missing == {"whatif_live", "whatif_lkg", "bucket_whatif_live", "bucket_whatif_lkg"}


def test_a_moved_bias_is_told_with_the_same_tokens_under_the_last_known_good():
    simulated = engine()
    assert MODEL.checkpoint_bias is not None
    bias = MODEL.checkpoint_bias.copy()
    bias[:, :40] += 0.1
    simulated.governed.move_bias(bias)
    told = frames(simulated, 11)[9]
    live, good = (told.arrays[name].astype(float) for name in ("whatif_live", "whatif_lkg"))
    assert (live.sum(axis=1) == good.sum(axis=1)).all()
    assert live[:, :40].sum() > 1.5 * good[:, :40].sum()
    assert told.header.bias_distance == pytest.approx(0.1, rel=1e-3)
    assert told.header.live_bias != told.header.lkg_bias == told.header.configured_bias
    buckets = told.arrays["bucket_whatif_live"].sum(axis=0)
    assert buckets.sum() >= told.arrays["whatif_live"].sum()


def test_a_larger_c_overflows_less():
    low, high = (frames(engine(capacity_factor=c), 3)[-1].arrays for c in ("1", "2"))
    assert high["overflow"].sum() < 0.3 * low["overflow"].sum()
    assert low["dropped"].sum() > 0


def test_a_dropless_engine_counts_overflow_and_drops_nothing():
    arrays = frames(engine(overflow_mode=OverflowMode.VIRTUAL), 3)[-1].arrays
    assert arrays["overflow"].sum() > 0
    assert arrays["dropped"].sum() == 0


def test_a_slow_rank_makes_its_peers_wait_and_steps_longer():
    plain, slowed = engine(), engine()
    slowed.conditions = replace(slowed.conditions, slow={5: 1.6})
    before, after = frames(plain, 3)[-1], frames(slowed, 3)[-1]
    waits = after.arrays["a2a_rank_wait_us"].astype(float)
    assert waits.argmin() == 5
    assert waits[5] < 0.5 * np.median(waits)
    mean = [f.header.histogram_sums["itl"] / f.arrays["inter_token"].sum() for f in (before, after)]
    assert mean[1] > 1.1 * mean[0]


def test_fewer_sequences_at_once_queue_and_shorten_steps():
    wide, narrow = engine(rate=60.0), engine(rate=60.0, max_concurrency=64)
    before, after = frames(wide, 12)[-1], frames(narrow, 12)[-1]
    assert after.header.gauges.running <= 64 < before.header.gauges.running
    assert after.header.gauges.queued > 0


def test_an_engine_without_requests_tells_of_time_without_steps():
    frame = frames(engine(rate=1e-9), 2)[-1]
    assert frame.header.steps == 0
    assert frame.header.tokens == (0, 0)
    assert frame.arrays["assignments"].sum() == 0


def test_a_prefill_engine_gives_one_token_and_a_decode_engine_prefills_none():
    roles: tuple[tuple[Literal["prefill", "decode"], int], ...] = (("prefill", 1), ("decode", 0))
    for role, phase in roles:
        settings = SimulationSettings(
            "e", MODEL, default_runtime(32), FittedWorkload(5.0), role=role
        )
        told = frames(SimulatedEngine(settings), 5)
        assert sum(frame.header.tokens[phase] for frame in told) == 0
        assert sum(frame.header.tokens[1 - phase] for frame in told) > 0


def test_a_tick_of_ten_seconds_tells_of_as_many_tokens_as_ten_of_one():
    short = frames(engine(rate=10.0), 60)
    long = frames(engine(rate=10.0), 6, seconds=10.0)
    finished = [sum(f.header.requests.finished for f in told) for told in (short, long)]
    assert finished[0] == pytest.approx(finished[1], rel=0.25)
