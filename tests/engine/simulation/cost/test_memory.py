"""What fits a card, and what dropping C changes."""

import pytest

from engine.simulation.cost.memory import buffer_bytes, card_memory
from engine.simulation.cost.presets import preset
from engine.simulation.cost.step import Layout
from engine.simulation.cost.topology import topology

SHAPE = preset("deepseek-v3")


def held(where, ranks, factor=1.25):
    return card_memory(
        SHAPE, topology(where), Layout(ranks), kv_tokens=64 * 4096, group_tokens=16384,
        capacity_factor=factor,
    )  # fmt: skip


def test_one_node_holds_deepseek_v3_on_h200_but_not_on_h100():
    assert held("hgx-h200", 8).fits
    assert not held("hgx-h100", 8).fits
    assert held("hgx-h100", 64).fits


def test_another_capacity_factor_changes_buffers_and_nothing_else():
    low, high = held("hgx-h200", 8, 1.0), held("hgx-h200", 8, 2.0)
    assert high.buffers == pytest.approx(2 * low.buffers)
    assert (high.experts, high.common, high.kv_cache) == (low.experts, low.common, low.kv_cache)
    assert low.experts / 1e9 == pytest.approx(81.7, abs=0.1)


def test_expert_inputs_of_16384_tokens_take_a_quarter_of_a_gigabyte():
    rows = 32 * 512  # m · cap at C = 1, E = 256, M = 8
    values = buffer_bytes(SHAPE, Layout(8), group_tokens=16384, capacity_factor=1.0)
    assert rows * 7168 * 2 / 1e9 == pytest.approx(0.235, abs=0.001)
    assert values == rows * (2 * 7168 + 2 * 2048) * 2
