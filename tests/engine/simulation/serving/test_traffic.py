"""Requests: as many, as long and as bursty as asked for; a recording repeats."""

import numpy as np
import pytest

from engine.simulation.serving.traffic import (
    DAY,
    LENGTHS,
    FittedWorkload,
    RecordedWorkload,
    day_factor,
)


def drawn(workload, ticks, seconds=10.0, **scale):
    generator = np.random.default_rng(1)
    given = {"rate": 1.0, "prompt": 1.0} | scale
    return [workload.arrivals(generator, i * seconds, seconds, **given) for i in range(ticks)]


def test_the_mean_rate_and_its_multiple_are_met():
    for rate in (1.0, 3.0):
        counts = [len(a.offsets) for a in drawn(FittedWorkload(20.0), 400, rate=rate)]
        assert np.mean(counts) == pytest.approx(200 * rate, rel=0.03)


@pytest.mark.parametrize("cv", [1.0, 2.3])
def test_counts_vary_as_the_interarrival_cv_says(cv):
    counts = [len(a.offsets) for a in drawn(FittedWorkload(20.0, arrival_cv=cv), 3000)]
    assert np.var(counts) / np.mean(counts) == pytest.approx(max(1.0, cv**2), rel=0.15)


def test_offsets_lie_sorted_within_the_tick():
    for arrivals in drawn(FittedWorkload(20.0), 5):
        assert (np.diff(arrivals.offsets) >= 0).all()
        assert 0 <= arrivals.offsets[0] <= arrivals.offsets[-1] < 10.0


def test_lengths_have_the_fitted_median_and_prompts_scale():
    for prompt in (1.0, 8.0):
        told = drawn(FittedWorkload(50.0), 100, prompt=prompt)
        prompts = np.concatenate([a.prompts for a in told])
        median = np.exp(LENGTHS["conversation"].prompt_mean) * prompt
        assert np.median(prompts) == pytest.approx(median, rel=0.05)
        assert prompts.min() >= 1
        assert prompts.max() <= LENGTHS["conversation"].most


def test_fixed_lengths_are_exact():
    told = drawn(FittedWorkload(20.0, fixed_lengths=(4000, 600)), 2)[0]
    assert set(told.prompts.tolist()) == {4000}
    assert set(told.outputs.tolist()) == {600}


def test_a_day_keeps_its_mean_and_a_flat_one_has_no_shape():
    hours = np.arange(0, DAY, 600.0)
    assert np.mean([day_factor(at, 1.0) for at in hours]) == pytest.approx(1.0, abs=0.02)
    assert max(day_factor(at, 0.6) for at in hours) > 1.2
    assert {day_factor(at, 0.0) for at in hours} == {1.0}


TRACE = RecordedWorkload(np.array([0.0, 1.0, 4.0]), np.array([5, 6, 7]), np.array([1, 2, 0]))


def test_a_recording_starts_over_when_it_ends():
    told = drawn(TRACE, 3, seconds=5.0)
    assert [a.prompts.tolist() for a in told] == [[5, 6, 7]] * 3
    assert told[1].offsets.tolist() == pytest.approx([0.0, 1.0, 4.0])


def test_a_recording_twice_as_fast_repeats_twice_and_every_output_has_a_token():
    told = drawn(TRACE, 1, seconds=5.0, rate=2.0)[0]
    assert told.offsets.tolist() == pytest.approx([0.0, 0.5, 2.0, 2.5, 3.0, 4.5])
    assert told.outputs.min() == 1


def test_a_tick_may_begin_within_a_recording():
    told = TRACE.arrivals(np.random.default_rng(0), 3.0, 3.0, rate=1.0, prompt=1.0)
    assert told.prompts.tolist() == [7, 5]
    assert told.offsets.tolist() == pytest.approx([1.0, 2.0])
