"""All-to-all times against DeepEP's published tables, and their shape."""

import itertools

import pytest

from engine.simulation.cost.exchange import (
    ExchangeSetting,
    low_latency_seconds,
    network_bytes,
    normal_seconds,
)
from engine.simulation.cost.topology import topology

PUBLISHED = {
    8: 77 + 114,
    16: 118 + 195,
    32: 155 + 273,
    64: 173 + 314,
    128: 192 + 369,
    256: 194 + 360,
}
"""µs of dispatch + combine, 128 tokens, hidden 7168, k = 8 (DeepEP V1, H800)."""


def both(ranks, tokens=128, where="hgx-h800", **kwargs):
    setting = ExchangeSetting(ranks, 7168, 256, 8, **kwargs)
    return sum(
        low_latency_seconds(op, tokens, setting, topology(where)) for op in ("dispatch", "combine")
    )


@pytest.mark.parametrize("ranks", PUBLISHED)
def test_low_latency_kernels_are_within_15_percent_of_the_published_table(ranks):
    assert both(ranks) * 1e6 == pytest.approx(PUBLISHED[ranks], rel=0.15)


def test_the_first_boundary_costs_most_and_growth_then_saturates():
    times = [both(ranks) for ranks in (8, 16, 32, 64, 128, 256)]
    growth = [after / before - 1 for before, after in itertools.pairwise(times)]
    assert growth[0] > 0.5
    assert growth == sorted(growth, reverse=True)


def test_fp8_dispatch_is_faster_and_leaves_combine_alone():
    where = topology("hgx-h800")
    wide, narrow = (ExchangeSetting(32, 7168, 256, 8, fp8_dispatch=x) for x in (False, True))
    saved = 1 - low_latency_seconds("dispatch", 128, narrow, where) / low_latency_seconds(
        "dispatch", 128, wide, where
    )
    assert 0.31 <= saved <= 0.48
    assert low_latency_seconds("combine", 128, narrow, where) == low_latency_seconds(
        "combine", 128, wide, where
    )


def test_the_busiest_rank_decides():
    setting = ExchangeSetting(32, 7168, 256, 8)
    where = topology("hgx-h100")
    assert low_latency_seconds("dispatch", 128, setting, where, load=2) > low_latency_seconds(
        "dispatch", 128, setting, where
    )


def test_normal_kernels_send_a_token_once_to_a_domain():
    where = topology("hgx-h100")
    setting = ExchangeSetting(16, 7168, 256, 8)
    assert network_bytes("dispatch", 4096, setting, where) == pytest.approx(4096 * 7392, rel=0.01)
    limited = ExchangeSetting(64, 7168, 256, 8, node_limit=4)
    assert network_bytes("dispatch", 4096, limited, where) < network_bytes(
        "dispatch", 4096, ExchangeSetting(64, 7168, 256, 8), where
    )


@pytest.mark.parametrize(("ranks", "measured"), [(8, 491 + 972), (16, 749 + 1777)])
def test_normal_kernels_are_within_20_percent_of_recorded_times(ranks, measured):
    setting = ExchangeSetting(ranks, 7168, 256, 8)
    found = sum(
        normal_seconds(op, 4096, setting, topology("hgx-h100")) for op in ("dispatch", "combine")
    )
    assert found * 1e6 == pytest.approx(measured, rel=0.20)


def test_one_rank_exchanges_nothing():
    assert both(1) == 0
    setting = ExchangeSetting(1, 7168, 256, 8)
    assert normal_seconds("dispatch", 128, setting, topology("hgx-h100")) == 0
