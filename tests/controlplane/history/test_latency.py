"""Quantiles and shares from histograms."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.history.latency import fraction_under, quantile, quantile_values

BOUNDS = (0.1, 0.2, 0.5)


def _cells(values: list[float]):
    return np.bincount(np.searchsorted(BOUNDS, values, side="left"), minlength=4).astype(np.uint64)


@settings(deadline=None)
@given(st.lists(st.floats(0.001, 1), min_size=1, max_size=50), st.floats(0, 1))
def test_a_quantile_lies_in_the_cell_of_the_true_one(values, q):
    at = quantile(_cells(values), BOUNDS, q)
    assert at is not None
    rank = max(0, min(len(values) - 1, int(np.ceil(q * len(values) - 1e-9)) - 1))
    truth = sorted(values)[rank]
    assert at.low <= truth <= (at.high or 1.0)
    assert at.low <= at.at_least <= (at.high or at.low)
    assert (at.value is None) == (at.high is None)
    assert at.n == len(values)


@settings(deadline=None)
@given(st.lists(st.floats(0.001, 1), min_size=1, max_size=50), st.floats(0.01, 1))
def test_a_share_is_bounded_and_exact_at_a_bound(values, threshold):
    share = fraction_under(_cells(values), BOUNDS, threshold)
    truth = sum(value <= threshold for value in values) / len(values)
    assert share is not None
    assert share.low <= truth <= share.high
    exact = fraction_under(_cells(values), BOUNDS, 0.2)
    assert exact is not None
    assert exact.exact
    assert exact.low == pytest.approx(sum(value <= 0.2 for value in values) / len(values))


def test_nothing_observed_is_nothing_said():
    empty = np.zeros(4, dtype=np.uint64)
    assert quantile(empty, BOUNDS, 0.5) is None
    assert fraction_under(empty, BOUNDS, 0.2) is None


def test_above_the_last_bound_no_value_is_known_only_that_it_is_more():
    at = quantile(_cells([0.9]), BOUNDS, 0.5)
    assert at is not None
    assert (at.value, at.low, at.high, at.at_least) == (None, 0.5, None, 0.5)


@pytest.mark.parametrize(
    ("values", "exact", "at"),
    [
        ([0.9], (0.1, 0.2), (None, 0.2, None)),  # open above their last bound, 0.2 not our 0.5
        ([0.3], (0.1, 0.2), (None, 0.2, None)),
        ([0.15], (0.1, 0.5), (0.15, 0.1, 0.5)),
        ([0.9], (), (None, 0.0, None)),
        ([0.9], None, (None, 0.5, None)),
    ],
)
def test_a_quantile_of_other_buckets_lies_between_the_bounds_that_are_exact(values, exact, at):
    found = quantile(_cells(values), BOUNDS, 0.5, exact=exact)
    assert found is not None
    assert (found.value, found.low, found.high) == (
        at[0] if at[0] is None else pytest.approx(at[0]), *at[1:],
    )  # fmt: skip


@settings(deadline=None)
@given(
    st.lists(st.lists(st.floats(0.001, 1), max_size=30), min_size=1, max_size=5),
    st.sampled_from([0.01, 0.5, 0.99, 1.0]),
)
def test_quantiles_of_many_histograms_are_those_of_each(rows, q):
    cells = np.stack([_cells(values) for values in rows])
    for row, value in zip(cells, quantile_values(cells, BOUNDS, q), strict=True):
        alone = quantile(row, BOUNDS, q)
        assert np.isnan(value) if alone is None else value == pytest.approx(alone.at_least)
