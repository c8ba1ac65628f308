import numpy as np
import pytest

from contract.histograms import TTFT_SECONDS
from controlplane.slo.histogram import count_over, merged, quantile
from tests.support.engine_windows import histogram, window


def requests(index, by_generation):
    return window(
        index,
        by_generation={
            g: {"ttft": histogram("ttft", good=good, bad=bad, threshold=0.2)}
            for g, (good, bad) in by_generation.items()
        },
    )


def test_merging_sums_windows_and_generations_or_only_those_asked_for():
    windows = [requests(0, {1: (10, 1)}), requests(1, {1: (5, 0), 2: (7, 3), -1: (1, 0)})]
    assert merged(windows, "ttft").sum() == 27
    assert merged(windows, "ttft", generations=(2,)).sum() == 10
    assert merged(windows, "ttft", generations=(9,)).sum() == 0


def test_the_count_over_a_bound_is_exact():
    cells = merged([requests(0, {1: (10, 4)})], "ttft")
    assert count_over(cells, TTFT_SECONDS, 0.2) == 4
    assert count_over(cells, TTFT_SECONDS, 0.25) == 0
    assert count_over(cells, TTFT_SECONDS, 0.15) == 14


def test_a_threshold_between_bounds_is_refused():
    with pytest.raises(ValueError, match=r"0\.19 is not a histogram bound"):
        count_over(np.zeros(len(TTFT_SECONDS) + 1), TTFT_SECONDS, 0.19)


def test_quantiles_interpolate_inside_their_cell():
    bounds = (1.0, 2.0, 4.0)
    cells = np.array([50.0, 0.0, 50.0, 0.0])
    assert quantile(cells, bounds, 0.25) == pytest.approx(0.5)
    assert quantile(cells, bounds, 0.75) == pytest.approx(3.0)
    assert quantile(cells, bounds, 1.0) == pytest.approx(4.0)


def test_what_lies_above_the_last_bound_is_the_last_bound():
    assert quantile(np.array([0.0, 0.0, 9.0]), (1.0, 2.0), 0.5) == 2.0
    assert quantile(np.array([0.0, 0.0, 9.0]), (1.0, 2.0), 0.5, exact=(1.0,)) == 1.0


def test_no_events_have_no_quantile():
    assert quantile(np.zeros(3), (1.0, 2.0), 0.99) is None
