"""Queue and running sequences: admission in order and within limits, prompts in turn, presence."""

import numpy as np
import pytest

from engine.simulation.serving.batch import Batch, Limits, Running, Waiting

LIMITS = Limits(concurrency=4, chunk_size=1000, kv_tokens=1e6, queue=100, generation=1)


def batch_of(*waiting, limits=LIMITS, now=0.0):
    batch = Batch()
    batch.queue.extend(waiting)
    batch.admit(now, limits)
    return batch


def first_tokens(batch, each=0.1, budget=100.0, most=1000.0):
    plan = batch.prefill_plan(0.0, each, budget, most)
    return plan, np.round(plan.first, 6).tolist()


def test_no_more_run_at_once_than_the_concurrency_and_the_rest_waits_in_order():
    batch = batch_of(*(Waiting(0.0, 10 + i, 5) for i in range(6)))
    assert len(batch.running) == 4
    assert [w.prompt for w in batch.queue] == [14, 15]


def test_the_cache_bounds_what_is_admitted_but_one_always_runs():
    small = Limits(concurrency=4, chunk_size=1000, kv_tokens=100, queue=100, generation=1)
    assert len(batch_of(Waiting(0, 60, 30), Waiting(0, 60, 30), limits=small).running) == 1
    assert len(batch_of(Waiting(0, 600, 30), limits=small).running) == 1


def test_a_prompt_takes_whole_steps_and_prompts_take_turns():
    plan, first = first_tokens(batch_of(Waiting(0, 250, 5), Waiting(0, 50, 5)))
    assert first == [pytest.approx(0.3), pytest.approx(0.3)]
    assert plan.steps == 3
    assert plan.finished.all()


def test_a_prompt_that_arrives_within_a_step_waits_for_the_next():
    _, first = first_tokens(batch_of(Waiting(0.05, 10, 5), Waiting(0.25, 10, 5)))
    assert first == [pytest.approx(0.2), pytest.approx(0.4)]


def test_steps_between_two_prompts_hold_none():
    plan, _ = first_tokens(batch_of(Waiting(0.0, 100, 5), Waiting(5.0, 100, 5)))
    assert plan.steps == 2
    assert plan.per_step == pytest.approx(100)


def test_what_does_not_fit_in_the_block_is_left():
    batch = batch_of(Waiting(0, 300, 5))
    plan, _ = first_tokens(batch, most=2.0)
    assert not batch.prefill(plan).any()
    assert batch.running.column(Running.PREFILL).tolist() == [100]
    assert batch.running.column(Running.CONTEXT).tolist() == [200]


def test_a_sequence_counts_for_the_part_of_a_block_that_it_is_there():
    batch = batch_of(Waiting(0.0, 10, 5, cached=True), Waiting(0.75, 10, 5, cached=True))
    assert batch.present(batch.decoding, 0.0, 1.0).tolist() == [1.0, 0.25]


def test_no_sequence_makes_more_tokens_than_it_needs():
    batch = batch_of(Waiting(0.0, 10, 5, cached=True))
    made = batch.decode(batch.decoding, np.array([100.0]))
    assert made.tolist() == [4.0]
    assert not batch.decoding.any()
