"""What an engine serves and commits, on two real rank processes and a tiny checkpoint."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest

from engine.errors import BadRequestError, PromptTooLongError, QueueFullError, RefusedError
from engine.llm_engine.exchange import GenerationRequest
from engine.llm_engine.frame_reporter import hash_of
from tests.support.engines import TinyEngine

pytestmark = pytest.mark.asyncio(loop_scope="module")


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
    earlier = len(engine.frames)  # the newest of them may be older than the last test's requests
    await engine.until(lambda: any(f.header.steps == 0 for f in engine.frames[earlier:]))
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
