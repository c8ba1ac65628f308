from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from contract.runtime_config import CAPACITY_LADDER
from engine.moe.context import CapacityOutcome
from engine.telemetry.null_recorder import NullRecorder
from engine.telemetry.recorder import StepRecorder

LAYERS, EXPERTS, TOP_K, RANKS, SLOTS = 3, 8, 2, 2, 2


def recorder(rank: int = 0) -> StepRecorder:
    return StepRecorder(rank, RANKS, LAYERS, EXPERTS, TOP_K)


def tokens(count: int, seed: int = 0):
    draw = torch.Generator().manual_seed(seed)
    ids = torch.rand(count, EXPERTS, generator=draw).topk(TOP_K).indices
    buckets = torch.randint(0, 8, (count,), generator=draw)
    decode = torch.randint(0, 2, (count,), generator=draw).bool()
    return ids, buckets, decode


class Outcome:
    """A layer's counts as an MoE layer would leave them."""

    def __init__(self, expert_counts: torch.Tensor, tokens: int, *, rungs: int = 5) -> None:
        self.expert_counts = expert_counts
        self.tokens = tokens
        self.rank_tokens = (tokens,)
        self.rungs = rungs

    def together(self, layers: Sequence["Outcome"]) -> CapacityOutcome:
        counts = torch.stack([layer.expert_counts for layer in layers])
        overflow = (counts - SLOTS).clamp(min=0).sum(1)
        none = torch.zeros_like(overflow)
        return CapacityOutcome(
            expert_counts=counts, tokens=self.tokens, slots=SLOTS, overflow=overflow,
            overflow_at_rung=torch.full((len(layers), len(CAPACITY_LADDER)), self.rungs),
            rerouted=none, spilled=none, dropped=overflow, executed=counts.sum(1) - overflow,
            tokens_all_dropped=none, card_counts=torch.tensor([[3, 4]] * len(layers)),
        )  # fmt: skip


@settings(max_examples=25, deadline=None)
@given(counts=st.lists(st.integers(0, 40), min_size=1, max_size=5))
def test_every_assignment_is_counted_once_in_its_cell(counts):
    own = recorder()
    expected = np.zeros((2, LAYERS, EXPERTS), dtype=np.int64)
    buckets_expected = np.zeros((8, LAYERS, EXPERTS), dtype=np.int64)
    for step, count in enumerate(counts):
        ids, buckets, decode = tokens(count, seed=step)
        own.begin_step(step, generation=0, phase=0)
        for layer in range(LAYERS):
            own.routed(layer, ids, buckets, decode)
        for row, bucket, phase in zip(ids, buckets, decode, strict=True):
            for expert in row:
                expected[int(phase), :, int(expert)] += 1
                buckets_expected[int(bucket), :, int(expert)] += 1
    drained = own.drain(period=True)
    assert np.array_equal(drained.arrays["assignments"], expected)
    assert np.array_equal(drained.arrays["bucket_assignments"], buckets_expected)


def test_bucket_counts_cover_the_whole_period_and_second_counts_one_drain():
    own = recorder()
    ids, buckets, decode = tokens(10)
    drains = []
    for step in range(3):
        own.begin_step(step, 0, 0)
        own.routed(0, ids, buckets, decode)
        drains.append(own.drain(period=step == 2).arrays)
    assert [drain["assignments"].sum() for drain in drains] == [20, 20, 20]
    assert ["bucket_assignments" in drain for drain in drains] == [False, False, True]
    assert drains[2]["bucket_assignments"].sum() == 60
    assert own.drain(period=True).arrays["bucket_assignments"].sum() == 0


def test_capacity_is_counted_on_rank_zero_alone():
    counts = torch.tensor([5, 1, 2, 0, 0, 4, 2, 2])
    for rank in (0, 1):
        own = recorder(rank)
        own.begin_step(7, generation=3, phase=1)
        own.capacity(1, Outcome(counts, tokens=8))
        own.begin_step(8, generation=4, phase=1)
        own.capacity(1, Outcome(counts, tokens=8))
        drained = own.drain(period=False)
        if rank:
            assert "overflow" not in drained.arrays
            assert drained.generation_assignments == {}
            continue
        assert drained.arrays["overflow"].tolist() == [0, 10, 0]
        assert drained.arrays["overflow_at_rung"][:, 1].tolist() == [10] * 6
        assert drained.arrays["card_assignments"].tolist() == [[0, 0], [6, 8], [0, 0]]
        assert drained.arrays["required_max"].tolist() == [0, 5, 0]
        assert drained.arrays["capacity_slots"].tolist() == [0, 2 * 8 * 2, 0]
        assert drained.required_capacity_factor == pytest.approx(5 / (8 * TOP_K / EXPERTS))
        assert drained.generation_overflow == {3: 5, 4: 5}
        assert drained.generation_assignments == {3: 16, 4: 16}


def test_a_step_without_overflow_at_the_first_rung_needs_no_more_than_one():
    own = recorder()
    own.begin_step(0, generation=0, phase=1)
    own.capacity(0, Outcome(torch.tensor([3, 1, 0, 0, 0, 0, 0, 0]), tokens=2, rungs=0))
    assert own.drain(period=False).required_capacity_factor == 1.0
    assert own.drain(period=False).required_capacity_factor == 0.0


def test_a_sampled_step_counts_both_sides_and_its_tokens_once():
    own = recorder()
    ids, buckets, _ = tokens(6)
    other = (ids + 1) % EXPERTS
    own.begin_step(0, 0, 0)
    for layer in range(LAYERS):
        own.sampled(layer, ids, other, buckets)
    drained = own.drain(period=True)
    assert (drained.sampled_steps, drained.sampled_tokens) == (1, 6)
    assert drained.arrays["whatif_live"].sum() == LAYERS * 12
    assert np.array_equal(
        drained.arrays["whatif_lkg"], np.roll(drained.arrays["whatif_live"], 1, axis=1)
    )
    assert drained.arrays["bucket_whatif_lkg"].shape == (8, LAYERS, EXPERTS)
    assert "whatif_live" not in own.drain(period=True).arrays


def test_exchanges_belong_to_the_step_before_and_messages_are_counted():
    own = recorder()
    own.begin_step(3, 0, 0)
    for step, phase in ((4, 1), (5, 1)):
        own.begin_step(step, 0, phase)
        for layer in range(LAYERS):
            own.exchange(layer, 0, 0.001, 0.002, 300, (100, 200))
            own.exchange(layer, 1, 0.003, 0.004, 700, (700,))
    own.begin_step(6, 0, 1)
    drained = own.drain(period=False)
    assert drained.step_ids.tolist() == [3, 4]
    assert drained.step_phases.tolist() == [0, 1]
    assert drained.exchange_seconds.shape == (2, 2, 2, LAYERS)
    assert drained.exchange_seconds[0, 1, 1].tolist() == pytest.approx([0.004] * 3)
    assert drained.arrays["a2a_bytes"].tolist() == [1800, 4200]
    assert drained.message_cells is not None
    assert drained.message_cells.sum(axis=1).tolist() == [12, 6]
    assert (drained.steps, drained.step_first, drained.step_last) == (4, 3, 6)


def test_gate_mass_is_summed_in_double():
    own = recorder()
    for _ in range(1000):
        own.gate_mass(torch.tensor(0.1), torch.tensor(0.2))
    drained = own.drain(period=False)
    assert drained.gate_mass_kept == pytest.approx(100.0, rel=1e-6)
    assert drained.gate_mass_total == pytest.approx(200.0, rel=1e-6)


def test_an_idle_rank_records_empty_steps():
    own = recorder()
    own.begin_step(0, 0, 1)
    ids, buckets, decode = tokens(0)
    own.routed(0, ids, buckets, decode)
    own.sampled(0, ids, ids, buckets)
    assert own.drain(period=False).arrays["assignments"].sum() == 0


def test_the_null_recorder_counts_nothing():
    null = NullRecorder()
    null.begin_step(0, 0, 0)
    null.routed(0, *tokens(4))
    assert null.drain(period=True).arrays == {}


def test_recording_works_inside_inference_mode():
    own = recorder()
    with torch.inference_mode():
        own.begin_step(0, 0, 0)
        own.routed(0, *tokens(4))
        own.capacity(0, Outcome(torch.ones(EXPERTS, dtype=torch.int64), tokens=4))
        own.gate_mass(torch.tensor(1.0), torch.tensor(1.0))
    assert own.drain(period=False).arrays["assignments"].sum() == 8


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_the_fused_kernel_counts_as_the_processor_does():
    drains = []
    for device in ("cpu", "cuda"):
        own = StepRecorder(0, RANKS, LAYERS, EXPERTS, TOP_K, device)
        for step in range(3):
            ids, buckets, decode = (part.to(device) for part in tokens(64, seed=step))
            own.begin_step(step, 0, 0)
            for layer in range(LAYERS):
                own.routed(layer, ids, buckets, decode)
                own.sampled(layer, ids, (ids + 1) % EXPERTS, buckets)
        drains.append(own.drain(period=True).arrays)
    assert drains[0].keys() == drains[1].keys()
    assert all(np.array_equal(drains[0][name], drains[1][name]) for name in drains[0])


@settings(max_examples=15, deadline=None)
@given(
    steps=st.lists(
        st.tuples(st.integers(0, 6), st.integers(1, 3), st.booleans()), min_size=1, max_size=24
    )
)
def test_steps_added_up_together_count_as_each_of_them_alone(steps):
    together, alone = recorder(), recorder()
    for number, (count, generation, sampled) in enumerate(steps):
        ids, buckets, decode = tokens(count, seed=number)
        counts = torch.bincount(ids.flatten(), minlength=EXPERTS)
        for own in (together, alone):
            own.begin_step(number, generation, phase=1)
            for layer in range(LAYERS):
                own.routed(layer, ids, buckets, decode)
                own.capacity(layer, Outcome(counts, count))
                own.gate_mass(torch.full((count, TOP_K), 0.25), torch.full((count, TOP_K), 0.5))
                if sampled:
                    own.sampled(layer, ids, ids, buckets)
            own.end_step()
        alone._add_up()
    first, second = together.drain(period=True), alone.drain(period=True)
    assert first.arrays.keys() == second.arrays.keys()
    for name, values in first.arrays.items():
        assert np.array_equal(values, second.arrays[name]), name
    assert first.generation_overflow == second.generation_overflow
    assert first.generation_assignments == second.generation_assignments
    assert first.required_capacity_factor == second.required_capacity_factor
    assert first.gate_mass_kept == pytest.approx(second.gate_mass_kept)
    assert first.gate_mass_total == pytest.approx(second.gate_mass_total)
