"""The engine core on two real rank processes and a tiny checkpoint; one engine for all tests."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest
import pytest_asyncio

from engine.errors import BadRequestError, PromptTooLongError, QueueFullError, RefusedError
from engine.faults.control import Faults
from engine.faults.names import ENGINE_FAULTS
from engine.llm_engine.exchange import GenerationRequest
from engine.llm_engine.frame_reporter import hash_of
from tests.support.engines import TinyEngine
from tests.support.tiny_checkpoint import write_tiny_checkpoint

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine(tmp_path_factory):
    checkpoint = write_tiny_checkpoint(tmp_path_factory.mktemp("checkpoint") / "tiny")
    engine = TinyEngine(checkpoint, queue_limit=40, whatif_every=2)
    await engine.start()
    yield engine
    assert not engine.failed.done()
    await engine.stop()


async def test_the_model_is_known_once_started(engine):
    assert engine.model.name == "tiny"
    assert (engine.model.moe_layers, engine.model.experts, engine.model.top_k) == (2, 16, 4)
    assert engine.model.context_tokens == 256
    assert engine.model.eos_token_ids == (257,)
    assert engine.model.checkpoint_bias.shape == (2, 16)


async def test_what_runs_beside_a_request_does_not_change_its_tokens(engine):
    await engine.commit(engine.plan(1, capacity_factor=None))
    alone = await engine.complete("alone")
    together = await asyncio.gather(
        engine.complete("same"),
        *(engine.complete(f"other-{i}", range(3, 30 + 9 * i), 12) for i in range(10)),
    )
    assert together[0] == alone
    assert [len(tokens) for tokens in together] == [8] + [12] * 10


@pytest.mark.parametrize("changes", [{"ranks": 1}, {"collectives": "distributed"}], ids=str)
async def test_one_rank_or_gloo_gives_the_same_tokens(engine, changes):
    await engine.commit(engine.plan(11, capacity_factor=None))
    wanted = await engine.complete("sockets")
    other = TinyEngine(engine.config.checkpoint, **changes)
    await other.start()
    try:
        await other.commit(other.plan(11, capacity_factor=None))
        assert await other.complete("other") == wanted
    finally:
        await other.stop()


async def test_chunks_and_preemption_do_not_change_tokens(engine):
    prompt = tuple(np.random.default_rng(1).integers(0, 256, 180))
    await engine.commit(engine.plan(2, capacity_factor=None, chunk_size=512))
    whole = await engine.complete("whole", prompt, 40)
    await engine.commit(engine.plan(3, capacity_factor=None, chunk_size=128, max_concurrency=32))
    # 64 blocks of 16 tokens a rank hold four such sequences and no more.
    crowd = await asyncio.gather(*(engine.complete(f"c{i}", prompt, 40) for i in range(14)))
    assert all(tokens == whole for tokens in crowd)


async def test_sampling_repeats_with_its_seed_and_varies_without(engine):
    hot = {"temperature": 1.0, "top_p": 0.95, "max_tokens": 16}
    first = await engine.complete("s1", seed=5, **hot)
    second = await engine.complete("s2", seed=5, **hot)
    third = await engine.complete("s3", seed=6, **hot)
    assert first == second != third


async def test_a_commit_under_load_switches_every_rank_at_one_step(engine):
    running = [asyncio.create_task(engine.complete(f"l{i}", max_tokens=60)) for i in range(8)]
    await asyncio.sleep(0.05)
    receipts = []
    for generation, factor in enumerate(["1", "2", "1.5"], start=10):
        receipts.append(await engine.commit(engine.plan(generation, capacity_factor=factor)))
    steps = [receipt.effective_at_step for receipt in receipts]
    assert steps == sorted(set(steps))
    for generation, receipt in enumerate(receipts, start=10):
        assert [(a.rank, a.generation, a.step) for a in receipt.ranks] == [
            (rank, generation, receipt.effective_at_step) for rank in (0, 1)
        ]
    assert all(len(tokens) == 60 for tokens in await asyncio.gather(*running))


async def test_an_idle_engine_commits_by_an_empty_step(engine):
    before = await engine.commit(engine.plan(20))
    after = await engine.commit(engine.plan(21))
    assert after.effective_at_step == before.effective_at_step + 1


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


async def test_lowering_concurrency_under_load_drains_and_loses_nothing(engine):
    await engine.commit(engine.plan(50, max_concurrency=16))
    running = [asyncio.create_task(engine.complete(f"d{i}", max_tokens=40)) for i in range(12)]
    await asyncio.sleep(0.05)
    await engine.commit(engine.plan(51, max_concurrency=1))
    assert all(len(tokens) == 40 for tokens in await asyncio.gather(*running))
    await engine.commit(engine.plan(52))


async def test_a_full_queue_answers_with_the_time_to_come_back(engine):
    await engine.commit(engine.plan(60, max_concurrency=1))
    tasks = [asyncio.create_task(engine.complete(f"q{i}", max_tokens=6)) for i in range(60)]
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    refused = [answer for answer in answers if isinstance(answer, QueueFullError)]
    served = [answer for answer in answers if isinstance(answer, list)]
    assert len(refused) + len(served) == 60
    assert len(refused) >= 19
    assert all(error.retry_after_seconds >= 1 for error in refused)
    assert all(len(tokens) == 6 for tokens in served)
    await engine.commit(engine.plan(61))


async def test_what_cannot_be_served_is_refused_before_the_first_token(engine):
    with pytest.raises(PromptTooLongError, match="over the context of 256"):
        await engine.complete("long", range(250), 10)
    with pytest.raises(BadRequestError, match="token id 259 is outside the vocabulary of 259"):
        await engine.complete("odd", [259])
    with pytest.raises(RefusedError, match="overflow_policy spill cannot become live"):
        engine.check(engine.plan(0, overflow_policy="spill").config)


async def test_a_request_id_in_use_is_refused_and_free_again_afterwards(engine):
    first = asyncio.create_task(engine.complete("twin", max_tokens=30))
    await asyncio.sleep(0)
    with pytest.raises(BadRequestError, match="'twin' is in use"):
        await engine.complete("twin")
    await first
    await engine.complete("twin")


async def test_closing_a_stream_frees_its_blocks(engine):
    stream = engine.generate(GenerationRequest("gone", tuple(range(40)), 200, ignore_eos=True))
    await anext(stream)
    await stream.aclose()
    seen = len(engine.frames)
    await engine.until(lambda: len(engine.frames) > seen + 2)
    gauges = engine.frames[-1].header.gauges
    assert (gauges.running, gauges.queued, gauges.kv_blocks_used_ratio) == (0, 0, 0.0)


async def test_frames_add_up_to_what_was_served(engine):
    await engine.commit(engine.plan(70, capacity_factor="1.25"))
    seen = len(engine.frames)
    await engine.until(lambda: len(engine.frames) > seen + 1)
    first = len(engine.frames)
    await asyncio.gather(*(engine.complete(f"f{i}", range(40), 10) for i in range(6)))
    await engine.until(
        lambda: (
            sum(f.header.requests.finished for f in engine.frames[first:]) == 6
            and any(f.header.period_seconds for f in engine.frames[first + 1 :])
        )
    )
    frames = engine.frames[first:]
    headers = [frame.header for frame in frames]
    assert sum(header.tokens[0] for header in headers) == 6 * 40
    assert sum(header.tokens[1] for header in headers) == 6 * 9
    assert sum(header.requests.admitted for header in headers) == 6
    assert [header.sequence for header in headers] == list(
        range(headers[0].sequence, headers[0].sequence + len(headers))
    )
    assigned = sum(int(frame.arrays["assignments"].sum()) for frame in frames)
    assert assigned == 6 * 49 * 4 * 2
    outcome = sum(
        int(frame.arrays[name].sum()) for frame in frames for name in ("executed", "dropped")
    )
    assert outcome == assigned
    assert sum(int(frame.arrays["ttft"].sum()) for frame in frames) == 6
    assert sum(int(frame.arrays["tpot"].sum()) for frame in frames) == 6
    assert sum(header.sampled_tokens for header in headers) > 0
    assert headers[-1].config_generation == 70
    assert headers[-1].live_bias == hash_of(engine.model.checkpoint_bias)


async def test_the_server_is_quoted_in_frames(engine):
    engine.annotate(epoch_seen=9, frozen=True)
    seen = len(engine.frames)
    await engine.until(lambda: len(engine.frames) > seen + 1)
    assert (engine.frames[-1].header.epoch_seen, engine.frames[-1].header.frozen) == (9, True)


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


async def test_a_placement_becomes_live_without_changing_tokens_and_an_uneven_one_is_refused(
    engine,
):
    await engine.commit(engine.plan(120, capacity_factor=None))
    before = await engine.complete("before", max_tokens=12)
    swapped = np.tile([*range(8, 16), *range(8)], (2, 1))
    moved = replace(
        engine.plan(121, capacity_factor=None, placement="swapped"), physical_to_logical=swapped
    )
    await engine.commit(moved)
    assert await engine.complete("swapped", max_tokens=12) == before
    odd = replace(engine.plan(122, placement="odd"), physical_to_logical=np.tile(range(17), (2, 1)))
    with pytest.raises(RefusedError, match="cannot prepare generation 122: placement"):
        await engine.commit(odd)
    replicated = np.tile([*range(16), 0, 1], (2, 1))
    spill = engine.plan(123, placement="replicas", overflow_policy="spill")
    await engine.commit(replace(spill, physical_to_logical=replicated))
    assert len(await engine.complete("spill", max_tokens=12)) == 12
    await engine.commit(engine.plan(124, capacity_factor=None))
    assert await engine.complete("after", max_tokens=12) == before


async def test_a_quiet_engine_counts_nothing_and_sends_no_frames(engine):
    await engine.until(lambda: engine.frames and engine.frames[-1].header.steps == 0)
    engine.set_quiet(quiet=True)
    await engine.complete("quiet")
    await asyncio.sleep(0.6)
    sent = len(engine.frames)
    await asyncio.sleep(0.6)
    assert len(engine.frames) == sent
    engine.set_quiet(quiet=False)
    await engine.complete("loud", range(40, 80), 8)

    def counted() -> int:
        return sum(int(frame.arrays["assignments"].sum()) for frame in engine.frames[sent:])

    wanted = (40 + 7) * engine.model.moe_layers * engine.model.top_k
    await engine.until(lambda: counted() >= wanted)
    assert counted() == wanted
