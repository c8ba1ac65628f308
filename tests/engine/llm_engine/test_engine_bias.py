"""The live bias: regulated, asked what if, recalibrated, probed."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest

from engine.errors import RefusedError
from engine.faults.control import Faults
from engine.faults.names import ENGINE_FAULTS

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_bias_that_no_rank_can_take_changes_nothing(engine):
    await engine.commit(engine.plan(30))
    wrong = replace(engine.plan(31), bias=np.zeros((2, 5), np.float32), reload_bias=True)
    with pytest.raises(RefusedError, match="cannot prepare generation 31: bias has shape"):
        await engine.commit(wrong)
    assert len(await engine.complete("still-serving")) == 8
    receipt = await engine.commit(engine.plan(32))
    assert {ack.generation for ack in receipt.ranks} == {32}


async def test_the_live_bias_changes_only_when_a_plan_reloads_it(engine):
    checkpoint = engine.model.checkpoint_bias
    other = checkpoint + np.linspace(0, 0.1, 16, dtype=np.float32)
    await engine.commit(replace(engine.plan(40), bias=other, reload_bias=False))
    assert np.array_equal(await engine.live_bias(), checkpoint)
    await engine.commit(replace(engine.plan(41), bias=other, reload_bias=True))
    assert np.array_equal(await engine.live_bias(), other)
    await engine.commit(replace(engine.plan(42), reload_bias=True))
    assert np.array_equal(await engine.live_bias(), checkpoint)


async def test_a_wrong_sign_regulator_moves_the_live_bias_until_a_rollback(engine):
    await engine.commit(
        replace(engine.plan(80), lkg_bias=engine.model.checkpoint_bias, lkg_hash="0" * 64)
    )
    faults = Faults(engine, ENGINE_FAULTS)
    await faults.inject("wrong-sign", {"update_speed": 0.01, "updates_per_second": 50})
    load = asyncio.create_task(
        asyncio.wait_for(_load_until(engine, lambda: _distance(engine) > 0.05), 20)
    )
    await load
    await engine.commit(engine.plan(81, capacity_factor="2"))
    assert len(faults.active()) == 1, "another knob's commit leaves the fault running"
    assert not np.array_equal(await engine.live_bias(), engine.model.checkpoint_bias)
    await engine.commit(replace(engine.plan(82), reload_bias=True))
    assert faults.active() == ()
    await engine.complete("after", max_tokens=30)
    assert np.array_equal(await engine.live_bias(), engine.model.checkpoint_bias)


async def _load_until(engine, holds) -> None:
    number = 0
    while not holds():
        number += 1
        await engine.complete(f"load-{number}", max_tokens=20)


def _distance(engine) -> float:
    return engine.frames[-1].header.bias_distance if engine.frames else 0.0


async def test_what_if_counts_the_same_tokens_under_another_bias_and_another_factor(engine):
    checkpoint = engine.model.checkpoint_bias
    await engine.commit(
        replace(engine.plan(90, capacity_factor="1.25", cap_min=1), reload_bias=True)
    )
    await asyncio.gather(*(engine.complete(f"w{i}", range(60), 20) for i in range(8)))
    same = await engine.what_if(checkpoint, None)
    assert same.sampled_steps > 0
    assert same.live == same.counterfactual
    assert not same.sufficient
    favourite = checkpoint.copy()
    favourite[:, 3] += 10.0
    skewed = await engine.what_if(favourite, None)
    assert skewed.live == same.live
    assert all(ratio > 3.9 for ratio in skewed.counterfactual.max_over_mean)
    roomy = await engine.what_if(None, "2")
    assert roomy.counterfactual.overflow_ratio_total < roomy.live.overflow_ratio_total


async def test_recalibration_levels_the_sampled_load_and_leaves_traffic_alone(engine):
    before = await engine.live_bias()
    bias, iterations, cv_before, cv_after = await engine.recalibrate(
        target_cv=0.05, max_iterations=300, update_speed=5e-3
    )
    assert bias.shape == before.shape
    assert iterations > 0
    assert all(after < start for start, after in zip(cv_before, cv_after, strict=True))
    assert np.array_equal(await engine.live_bias(), before)


async def test_the_probe_repeats_and_shows_a_damaged_bias(engine):
    await engine.commit(replace(engine.plan(100), reload_bias=True))
    nats, tokens = await engine.probe()
    assert tokens == 255
    assert await engine.probe() == (nats, tokens)
    damaged = engine.model.checkpoint_bias.copy()
    damaged[:, :4] += 10.0
    await engine.commit(replace(engine.plan(101), bias=damaged, reload_bias=True))
    assert (await engine.probe())[0] != nats
    await engine.commit(replace(engine.plan(102), reload_bias=True))
    assert await engine.probe() == (nats, tokens)


async def test_the_regulator_moves_the_bias_only_while_it_is_on(engine):
    checkpoint = engine.model.checkpoint_bias
    await engine.commit(engine.plan(110, bias_update="on"))
    await asyncio.gather(*(engine.complete(f"u{i}", range(200), 10) for i in range(12)))
    moved = await engine.live_bias()
    assert 0 < np.abs(moved - checkpoint).max() <= 0.1
    await engine.commit(engine.plan(111, bias_update="off"))
    await engine.complete("off", range(200), 10)
    assert np.array_equal(await engine.live_bias(), moved)
    await engine.commit(replace(engine.plan(112), reload_bias=True))
    assert np.array_equal(await engine.live_bias(), checkpoint)
