"""What is kept dense for decoding is always what the cache holds, and is gathered only anew."""

from collections.abc import Iterator, Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from engine.config import REFERENCE_CHECKPOINT
from engine.model.attention_plan import AttentionPlan, plan_attention
from engine.model.checkpoint.load import read_facts
from engine.model.kv_cache import KVCache
from engine.model.packed import build_batch
from engine.scheduling.scheduler import ScheduleLimits, Scheduler
from engine.scheduling.sequence import Sequence as LiveSequence
from tests.support.models import BLOCK_TOKENS, CPU, pack

SPEC = read_facts(REFERENCE_CHECKPOINT).spec
BLOCKS = 24
LIMITS = ScheduleLimits(chunk_size=6, max_concurrency=8)
REQUESTS = st.lists(
    st.tuples(st.integers(0, 12), st.integers(1, 20), st.integers(1, 30)), min_size=1, max_size=6
)


def make_cache() -> KVCache:
    return KVCache(SPEC, blocks=BLOCKS, block_tokens=BLOCK_TOKENS, device=CPU, dtype=torch.float32)


def steps(cache: KVCache, requests: Sequence[tuple[int, int, int]]) -> Iterator[AttentionPlan]:
    """Serve (step of arrival, prompt tokens, output tokens) with random rows in layer 0."""
    scheduler = Scheduler(num_ranks=1, kv_blocks=BLOCKS, block_tokens=BLOCK_TOKENS)
    last = max(arrival for arrival, _, _ in requests)
    step = 0
    while scheduler.has_work or step <= last:
        for number, (arrival, prompt, output) in enumerate(requests):
            if arrival == step:
                scheduler.add(LiveSequence(f"r{number}", [1] * prompt, prompt, output))
        step += 1
        shares = scheduler.schedule(LIMITS)
        batch = build_batch(pack(shares), BLOCK_TOKENS, CPU)
        plan = plan_attention(batch, BLOCK_TOKENS)
        cache.start_step(plan)
        rows = torch.randn(len(batch.token_ids), *cache.read(0, torch.tensor([0])).shape[::2])
        if len(rows):
            cache.write(0, batch.slot_mapping, rows)
        yield plan
        scheduler.complete(shares, {share.sequence.request_id: 1 for share in shares})


@settings(max_examples=60, deadline=None)
@given(requests=REQUESTS)
def test_every_row_that_a_sequence_sees_is_the_one_in_the_cache(
    requests: list[tuple[int, int, int]],
) -> None:
    cache = make_cache()
    for plan in steps(cache, requests):
        for group in plan.decode:
            seen = (group.key_positions <= group.positions).flatten()
            held = cache.read(0, group.block_tables.view(-1))[:, seen]
            assert torch.equal(cache.read_group(0, group)[:, seen], held)


def test_a_steady_decode_gathers_only_when_the_longest_sequence_needs_a_block(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cache = make_cache()
    gathered: list[int] = []
    read = cache.read

    def counted(layer: int, blocks: Tensor) -> Tensor:
        gathered.append(blocks.numel())
        return read(layer, blocks)

    num_steps = 0
    for plan in steps(cache, [(0, 3, 25), (0, 2, 25)]):
        monkeypatch.setattr(cache, "read", counted)
        for group in plan.decode:
            cache.read_group(0, group)
            num_steps += 1
        monkeypatch.setattr(cache, "read", read)
    assert num_steps == 24
    assert len(gathered) == 24 // BLOCK_TOKENS + 1
