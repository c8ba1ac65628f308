"""Sampled steps answer for another bias and another C, and sum over ranks."""

from fractions import Fraction

import numpy as np
import pytest
import torch

from engine.moe.layer import MoELayer
from engine.moe.prediction import predict
from engine.moe.recalibrate import recalibrate, sampled_load
from engine.moe.router import build_router
from engine.moe.what_if import ScoreReservoir, add_ranks, count_what_if
from engine.parallel.groups import LocalGroup
from tests.engine.moe.plain import make_context, make_spec, make_weights, plan

SPEC = make_spec(experts=16, top_k=4)
ROUTER = build_router(SPEC)


def hot(strength):
    """A bias that pulls traffic to the first three experts."""
    return torch.where(torch.arange(16) < 3, strength, 0.0).unsqueeze(0)


def serve(reservoir, bias, *, steps=20, tokens=256, seed=0, lkg=None):
    """Run sampled steps through one layer; the recorders' outcomes and samples."""
    layer = MoELayer(0, SPEC, make_weights(SPEC, seed=1), LocalGroup())
    random = torch.Generator().manual_seed(seed)
    contexts = []
    for step in range(steps):
        hidden = torch.randn(tokens, SPEC.hidden, generator=random)
        contexts.append(
            make_context(
                tokens, plan=plan("1.25", cap_min=1), bias=bias, lkg=lkg, sampled=True, step=step,
                reservoir=reservoir,
            )
        )  # fmt: skip
        layer.forward(hidden, contexts[-1])
    return contexts


def predicted(reservoir, bias, factor="1.25"):
    return predict(
        count_what_if(reservoir, ROUTER, SPEC.top_k, bias), top_k=SPEC.top_k, cap_min=1,
        live_factor=Fraction("1.25"), counterfactual_factor=Fraction(factor),
    )  # fmt: skip


def test_the_live_side_is_what_was_served():
    reservoir = ScoreReservoir(1, 16)
    contexts = serve(reservoir, hot(0.2))
    answer = predicted(reservoir, hot(0.2))
    overflow = sum(int(c.recorder.outcomes[0].overflow) for c in contexts)
    assert answer.live == answer.counterfactual
    assert answer.live.overflow_ratio_total == pytest.approx(overflow / (20 * 256 * 4))
    assert (answer.sampled_steps, answer.sampled_tokens, answer.sufficient) == (20, 5120, True)


def test_prediction_for_a_bias_is_what_then_happens():
    reservoir = ScoreReservoir(1, 16)
    serve(reservoir, hot(0.4))
    answer = predicted(reservoir, hot(0.0)).counterfactual
    after = ScoreReservoir(1, 16)
    serve(after, hot(0.0), seed=5)
    truth = predicted(after, None).live
    assert answer.tau[0] == pytest.approx(truth.tau[0], rel=0.2)
    assert answer.overflow_ratio_total == pytest.approx(truth.overflow_ratio_total, abs=0.01)
    live = predicted(reservoir, None).live
    assert live.tau[0] > 2 * truth.tau[0]


def test_prediction_for_a_capacity_is_the_overflow_at_that_rung():
    reservoir = ScoreReservoir(1, 16)
    contexts = serve(reservoir, hot(0.3))
    at_two = sum(int(c.recorder.outcomes[0].overflow_at_rung[-1]) for c in contexts)
    answer = predicted(reservoir, None, "2")
    assert answer.counterfactual.overflow_ratio_total == pytest.approx(at_two / (20 * 256 * 4))
    assert answer.counterfactual.tau == answer.live.tau


def test_sampled_steps_tell_the_recorder_what_the_last_known_good_would_choose():
    contexts = serve(ScoreReservoir(1, 16), hot(0.3), steps=1, lkg=hot(0.0))
    ((layer, live, counterfactual, _),) = contexts[0].recorder.samples
    ((_, routed, _, _),) = contexts[0].recorder.routings
    assert layer == 0
    assert torch.equal(live, routed)
    assert (live < 3).sum() > (counterfactual < 3).sum()


def test_ranks_add_up_and_must_hold_the_same_steps():
    one, two, three = (ScoreReservoir(1, 16) for _ in range(3))
    serve(one, None, steps=2, seed=1)
    serve(two, None, steps=2, seed=2)
    serve(three, None, steps=3, seed=2)
    counts = [count_what_if(r, ROUTER, 4, None) for r in (one, two, three)]
    total = add_ranks(counts[:2])
    assert np.array_equal(total.live, counts[0].live + counts[1].live)
    assert total.bucket_live.sum() == total.live.sum() == 2 * 2 * 256 * 4
    with pytest.raises(ValueError, match="different steps"):
        add_ranks(counts)


def test_memory_is_bounded_by_the_groups_tokens_and_the_newest_stay():
    reservoir = ScoreReservoir(1, 16, max_bytes=4 * 16 * 1000)
    serve(reservoir, None, steps=9)
    assert list(reservoir.complete()) == [6, 7, 8]


def test_a_step_without_all_its_layers_does_not_count():
    reservoir = ScoreReservoir(2, 16)
    scores, ids, buckets = torch.rand(3, 16), torch.zeros(3, 4, dtype=torch.int64), torch.arange(3)
    for step, layers in ((0, 2), (1, 1)):
        for layer in range(layers):
            reservoir.add(step, layer, scores, ids, buckets, group_tokens=3)
    assert list(reservoir.complete()) == [0]


def test_few_samples_are_called_insufficient_with_the_numbers():
    reservoir = ScoreReservoir(1, 16)
    serve(reservoir, None, steps=3, tokens=10)
    answer = predicted(reservoir, None)
    assert not answer.sufficient
    assert "3 sampled steps and 30 tokens" in answer.note


def test_no_samples_at_all_give_zeros_and_not_an_error():
    answer = predicted(ScoreReservoir(1, 16), hot(0.1))
    assert (answer.live.tau, answer.live.overflow_ratio_total) == ((0.0,), 0.0)


def test_recalibration_brings_the_sampled_load_below_the_target():
    reservoir = ScoreReservoir(1, 16)
    serve(reservoir, hot(0.3))
    found = recalibrate(
        hot(0.3), sampled_load(reservoir, ROUTER, 4), 4, target_cv=0.1, max_iterations=500,
        update_speed=5e-3,
    )  # fmt: skip
    assert found.converged
    assert found.cv_before[0] > 0.5
    assert found.cv_after[0] < 0.1
    assert 10 < found.iterations < 500
    after = predicted(reservoir, torch.from_numpy(found.bias)).counterfactual
    assert after.tau[0] < 0.12
    assert found.bias.mean() == pytest.approx(float(hot(0.3).mean()), abs=1e-6)


def test_recalibration_that_runs_out_says_so():
    reservoir = ScoreReservoir(1, 16)
    serve(reservoir, hot(0.4))
    found = recalibrate(
        hot(0.4), sampled_load(reservoir, ROUTER, 4), 4, target_cv=0.1, max_iterations=3,
        update_speed=1e-4,
    )  # fmt: skip
    assert (found.converged, found.iterations) == (False, 3)
