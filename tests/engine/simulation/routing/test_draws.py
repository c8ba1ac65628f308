"""Drawn counts: exact sums, the right spread, shared luck."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.simulation.routing.draws import fit, scatter, split


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 5000), st.integers(2, 40), st.integers(0, 2**32 - 1))
def test_rows_sum_exactly_and_no_count_is_negative(total, experts, seed):
    rng = np.random.default_rng(seed)
    expected = rng.dirichlet(np.ones(experts), size=3) * total
    counts = fit(scatter(rng, expected), expected, np.full(3, float(total)))
    assert (counts.sum(axis=1) == total).all()
    assert (counts >= 0).all()


@pytest.mark.parametrize("total", [400, 40_000])
def test_the_spread_is_that_of_routing_without_replacement(total):
    rng = np.random.default_rng(5)
    experts, top_k = 64, 8
    shrink = (experts - top_k) / (experts - 1)
    expected = np.full((4000, experts), total / experts)
    drawn = scatter(rng, expected, shrink=shrink if total > 1000 else 1.0)
    counts = fit(drawn, expected, np.full(4000, float(total)))
    noise = (experts - top_k if total > 1000 else experts - 1) / total
    assert (counts.std(axis=1) / counts.mean(axis=1)).mean() == pytest.approx(
        np.sqrt(noise), rel=0.05
    )


def test_a_split_adds_up_to_what_was_split():
    rng = np.random.default_rng(6)
    counts = rng.poisson(50, (3, 20))
    expected = rng.uniform(0.5, 1.5, (8, 3, 20)) * counts / 8
    parts = split(rng, expected, counts)
    assert (parts.sum(axis=0) == counts).all()


def test_equal_expectations_and_equal_luck_give_equal_counts():
    rng = np.random.default_rng(7)
    expected = np.full((2, 30), 40.0)
    luck = rng.standard_normal(expected.shape)
    totals = np.full(2, 1200.0)
    first, second = (fit(scatter(rng, expected, noise=luck), expected, totals) for _ in range(2))
    assert (first == second).all()
