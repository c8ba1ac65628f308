"""Step times: decode reads weights, the straggler decides, overlap hides the exchange."""

import numpy as np
import pytest

from engine.simulation.cost.dense import Tokens
from engine.simulation.cost.expert import active_experts
from engine.simulation.cost.presets import preset
from engine.simulation.cost.step import Layout, step_time
from engine.simulation.cost.topology import topology

SHAPE = preset("deepseek-v3")
WHERE = topology("hgx-h800")


def decode(busiest=1.0, layout=None, tokens=64):
    return step_time(
        SHAPE, WHERE, layout or Layout(32), Tokens(decode=tokens), np.full(58, busiest)
    )


def test_active_experts_follow_the_occupancy_formula():
    assert active_experts(256, 8 * 64) == pytest.approx(256 * (1 - (1 - 1 / 256) ** 512))
    assert active_experts(8, 0) == 0


def test_more_experts_at_a_fixed_ep_size_read_more_weights_in_decode():
    from dataclasses import replace

    times = [
        step_time(replace(SHAPE, experts=e), WHERE, Layout(8), Tokens(decode=64), np.ones(58))
        .experts[0]
        for e in (32, 64, 128, 256)
    ]  # fmt: skip
    assert times == sorted(times)


def test_decode_of_deepseeks_own_deployment_is_near_its_reported_45_to_50_ms():
    spent = decode(layout=Layout(144, redundant=32), tokens=64)
    assert 0.035 < spent.total < 0.06


def test_the_busiest_rank_lengthens_only_what_straggles():
    even, skewed = decode(1.0), decode(3.0)
    assert skewed.straggling > even.straggling
    assert skewed.attention == even.attention
    assert skewed.total - even.total == pytest.approx(skewed.straggling - even.straggling)


def test_two_micro_batches_hide_the_shorter_of_exchange_and_computation():
    plain, hidden = decode(), decode(layout=Layout(32, overlap=True))
    assert hidden.total < plain.total
    assert hidden.total >= max(plain.exchange, plain.total - plain.exchange - plain.head)


def test_tensor_parallelism_pays_an_all_reduce():
    assert decode().all_reduce == 0
    assert decode(layout=Layout(16, tp=2)).all_reduce > 0
