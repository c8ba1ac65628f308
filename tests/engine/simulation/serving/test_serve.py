"""A tick of serving: Little's law holds, the length of a tick changes little, nothing is lost."""

import numpy as np
import pytest

from engine.simulation.serving.batch import Batch, Limits
from engine.simulation.serving.serve import serve
from engine.simulation.serving.step_clock import StepCost
from engine.simulation.serving.traffic import Arrivals, FittedWorkload, Lengths

COST = StepCost(0.01, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, overlap=False)
LENGTHS = Lengths(prompt_mean=5.0, prompt_spread=0.5, output_mean=5.0, output_spread=0.5)


class Linear:
    """A step takes 10 ms and 0.05 ms for every token."""

    def step(self, decode, prefill, context):
        return 0.01 + 5e-5 * (decode + prefill), COST


def limits(concurrency=512, chunk_size=2048, *, cached=False, queue=4096):
    return Limits(concurrency, chunk_size, 1e9, queue, 1, prompts_cached=cached)


def served(tick_seconds, total=240.0, rate=20.0, warm=60.0, **given):
    batch, generator = Batch(), np.random.default_rng(3)
    workload = FittedWorkload(rate, LENGTHS, arrival_cv=1.0)
    ticks = []
    for index in range(round(total / tick_seconds)):
        at = index * tick_seconds
        arrivals = workload.arrivals(generator, at, tick_seconds, rate=1.0, prompt=1.0)
        tick = serve(batch, arrivals, limits(**given), Linear(), at, tick_seconds)
        if at >= warm:
            ticks.append(tick)
    return batch, ticks


def values(ticks, name):
    return np.concatenate([each for tick in ticks for _, each in getattr(tick, name)])


@pytest.mark.parametrize("tick_seconds", [1.0, 10.0, 60.0])
def test_tokens_per_request_are_steps_times_time_per_token(tick_seconds):
    _, ticks = served(tick_seconds)
    seconds = sum(tick.seconds for tick in ticks)
    decoding = sum(kind.steps * kind.seconds * kind.decode for t in ticks for kind in t.kinds)
    made = sum(kind.steps * kind.decode for t in ticks for kind in t.kinds)
    tpot = values(ticks, "tpot").mean()
    assert decoding / made == pytest.approx(tpot, rel=0.05)
    assert decoding / seconds == pytest.approx(made / seconds * tpot, rel=0.05)


def test_a_long_tick_tells_the_same_latencies_as_short_ones():
    short, long = (served(seconds)[1] for seconds in (1.0, 10.0))
    for name, allowed in (("tpot", 0.05), ("ttft", 0.2)):
        means = [values(ticks, name).mean() for ticks in (short, long)]
        assert means[1] == pytest.approx(means[0], rel=allowed), name


@pytest.mark.parametrize("cached", [False, True])
def test_no_first_token_comes_before_its_request(cached):
    _, ticks = served(10.0, cached=cached)
    if not cached:
        assert values(ticks, "ttft").min() > 0.01
    assert all((waits >= 0).all() for tick in ticks for _, waits in tick.queue_time)


def test_every_request_is_finished_running_waiting_or_turned_away():
    arrivals = Arrivals(np.linspace(0, 9, 50), np.full(50, 100), np.full(50, 2000))
    batch = Batch()
    tick = serve(batch, arrivals, limits(concurrency=10, queue=5), Linear(), 0.0, 10.0)
    assert tick.rejected > 0
    assert tick.finished + len(batch.running) + len(batch.queue) + tick.rejected == 50


def test_a_prompt_longer_than_the_budget_holds_the_next_one_up():
    alone = Arrivals(np.array([0.0]), np.array([100]), np.array([5]))
    behind = Arrivals(np.array([0.0, 0.0]), np.array([20_000, 100]), np.array([5, 5]))
    first = [
        serve(Batch(), arrivals, limits(), Linear(), 0.0, 10.0) for arrivals in (alone, behind)
    ]
    waits = [np.concatenate([v for _, v in tick.ttft])[-1] for tick in first]
    assert waits[1] > 5 * waits[0]


def test_an_idle_engine_makes_no_step():
    none = Arrivals(np.zeros(0), np.zeros(0, np.int64), np.zeros(0, np.int64))
    assert serve(Batch(), none, limits(), Linear(), 0.0, 1.0).steps == 0
