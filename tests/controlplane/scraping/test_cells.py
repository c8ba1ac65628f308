"""Another engine's buckets in our cells."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from contract.histograms import TTFT_SECONDS
from controlplane.history.latency import fraction_under
from controlplane.scraping.cells import cells_of
from controlplane.scraping.exposition import Buckets

OURS = (0.1, 0.2, 0.25, 0.5)


def test_a_shared_bound_is_exact_and_one_between_is_interpolated():
    cells, exact = cells_of([Buckets((0.1, 0.25), (10, 40, 50), 0.0)], OURS)
    assert exact == [0.1, 0.25]
    assert cells.tolist() == [10, 20, 10, 0, 10]  # two thirds of the way from 0.1 to 0.25


def test_a_bound_counts_as_exact_only_where_every_series_has_it():
    series = [Buckets((0.1, 0.25), (1, 2, 2), 0.0), Buckets((0.25,), (3, 3), 0.0)]
    cells, exact = cells_of(series, OURS)
    assert exact == [0.25]
    assert cells.sum() == 5


def test_above_the_last_foreign_bound_nothing_is_claimed():
    cells, exact = cells_of([Buckets((0.1,), (1, 9), 0.0)], OURS)
    assert (cells.tolist(), exact) == ([1, 0, 0, 0, 8], [0.1])


@settings(deadline=None)
@given(
    st.lists(st.floats(0.0005, 100), max_size=60),
    st.sets(st.sampled_from([0.003, 0.01, 0.1, 0.3, 0.5, 0.9, 2.5, 7.0, 40.0]), max_size=9),
    st.sampled_from([0.15, 0.2, 0.5, 10.0, 60.0]),
)
def test_nothing_is_lost_and_the_bracket_of_a_share_holds_the_truth(values, bounds, threshold):
    ordered = tuple(sorted(bounds))
    counts = [sum(v <= bound for v in values) for bound in ordered]
    cells, exact = cells_of([Buckets(ordered, (*counts, len(values)), 0.0)], TTFT_SECONDS)
    assert cells.sum() == len(values)
    share = fraction_under(np.asarray(cells, dtype=np.uint64), TTFT_SECONDS, threshold, exact=exact)
    if share is not None:
        truth = sum(v <= threshold for v in values) / len(values)
        assert share.low <= truth <= share.high
        assert share.low <= share.estimate <= share.high
        assert share.exact or threshold not in exact
