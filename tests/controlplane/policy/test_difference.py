import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import mannwhitneyu

from controlplane.policy.difference import (
    is_faster,
    mean_low,
    ratio_difference,
    slice_difference,
    wilson,
)
from controlplane.policy.measurement import Latency


def test_wilson_is_the_textbooks():
    assert wilson(10, 100, 1.96) == pytest.approx((0.0552, 0.1744), abs=1e-4)
    assert wilson(0, 0, 1.96) == (0.0, 1.0)


def test_a_clear_improvement_has_an_upper_bound_below_zero():
    found = ratio_difference(Latency(bad=40, total=100), Latency(bad=5, total=100), 0.95)
    assert found.value == pytest.approx(-0.35)
    assert found.low < found.value < found.high < 0


def test_the_controls_own_change_is_taken_off():
    before, after = Latency(bad=40, total=200), Latency(bad=10, total=200)
    alone = ratio_difference(before, after, 0.95)
    against = ratio_difference(before, after, 0.95, (before, after))
    assert alone.high < 0
    assert against.value == pytest.approx(0.0)
    assert against.high > 0


@given(st.integers(0, 50), st.integers(0, 50), st.integers(50, 90), st.integers(50, 90))
def test_the_estimate_lies_between_its_bounds(bad_before, bad_after, before, after):
    found = ratio_difference(
        Latency(bad=bad_before, total=before), Latency(bad=bad_after, total=after), 0.95
    )
    assert found.low <= found.value <= found.high


def test_slices_are_compared_by_welch_and_need_three_a_side():
    found = slice_difference([0.10, 0.11, 0.09], [0.02, 0.03, 0.02], 0.95)
    assert found is not None
    assert found.high < 0
    assert slice_difference([0.1, 0.1], [0.0, 0.0, 0.0], 0.95) is None
    level = slice_difference([0.1] * 3, [0.1] * 3, 0.95)
    assert level is not None
    assert (level.low, level.high) == pytest.approx((0.0, 0.0))


CELLS = st.lists(st.integers(0, 30), min_size=4, max_size=4)


@given(CELLS, CELLS)
def test_faster_is_what_mann_and_whitney_say(before, after):
    old, new = np.repeat(range(4), before), np.repeat(range(4), after)
    assume(min(len(old), len(new)) > 0 and len(set(old) | set(new)) > 1)
    wanted = mannwhitneyu(
        new, old, alternative="less", method="asymptotic", use_continuity=False
    ).pvalue
    assume(abs(wanted - 0.05) > 1e-9)
    assert is_faster(before, after, 0.95) == (wanted < 0.05)


@pytest.mark.parametrize(("before", "after"), [((), ()), ((1, 2), (0, 0)), ((1, 2), (1, 2, 3))])
def test_nothing_to_compare_is_not_faster(before, after):
    assert not is_faster(before, after, 0.95)


def test_the_lower_bound_of_a_mean_needs_three_slices_and_lies_below_it():
    assert mean_low((0.1, 0.2), 0.95) is None
    assert mean_low((0.1, 0.1, 0.1), 0.95) == pytest.approx(0.1)
    assert mean_low((0.05, 0.1, 0.15), 0.95) == pytest.approx(0.1 - 2.92 * 0.05 / 3**0.5, abs=1e-3)
