"""Bytes and copies against hand-computed figures (mechanisms of MoE exchange)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.simulation.cost.volume import (
    distinct_groups,
    num_domains,
    off_domain_share,
    row_bytes,
)


@pytest.mark.parametrize(("hidden", "bf16", "fp8"), [(7168, 14336, 7392), (2048, 4096, 2112)])
def test_a_row_weighs_what_the_kernels_count(hidden, bf16, fp8):
    assert row_bytes(hidden, fp8=False) == bf16
    assert row_bytes(hidden, fp8=True) == fp8


def test_fp8_saves_half_of_dispatch_and_a_quarter_of_both_ways():
    wide, narrow = row_bytes(7168, fp8=False), row_bytes(7168, fp8=True)
    assert 1 - narrow / wide == pytest.approx(0.484, abs=0.001)
    assert 1 - (narrow + wide) / (2 * wide) == pytest.approx(0.242, abs=0.001)


@pytest.mark.parametrize(("ranks", "expected"), [(8, 5.29), (32, 7.27)])
def test_eight_experts_lie_on_fewer_ranks(ranks, expected):
    assert distinct_groups(256, 8, ranks) == pytest.approx(expected, abs=0.01)


@given(st.sampled_from([8, 16, 64, 256]), st.integers(1, 8), st.sampled_from([1, 2, 4, 8]))
def test_distinct_groups_lie_between_one_and_both_bounds(experts, top_k, groups):
    found = distinct_groups(experts, top_k, groups)
    assert 1 - 1e-9 <= found <= min(groups, top_k) + 1e-9


def test_the_off_domain_share_saturates():
    shares = [off_domain_share(ranks, 8) for ranks in (8, 16, 32, 256)]
    assert shares == [0, 0.5, 0.75, 1 - 8 / 256]
    assert num_domains(256, 8) == 32
    assert num_domains(4, 8) == 1
