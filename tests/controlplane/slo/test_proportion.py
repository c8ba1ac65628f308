import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.slo.proportion import lower_bound, upper_bound


def test_bounds_are_those_of_clopper_and_pearson():
    # the textbook's exact 95 % two-sided interval of 10 in 100: 0.0490 to 0.1762
    assert lower_bound(10, 100, 0.975) == pytest.approx(0.0490, abs=1e-4)
    assert upper_bound(10, 100, 0.975) == pytest.approx(0.1762, abs=1e-4)


def test_nothing_seen_bounds_nothing():
    assert lower_bound(0, 0, 0.99) == 0.0
    assert upper_bound(0, 0, 0.99) == 1.0
    assert lower_bound(0, 50, 0.99) == 0.0
    assert upper_bound(50, 50, 0.99) == 1.0


@given(st.integers(1, 500), st.integers(0, 500))
def test_the_observed_ratio_lies_between_the_bounds(total, bad):
    bad = min(bad, total)
    assert lower_bound(bad, total, 0.99) <= bad / total <= upper_bound(bad, total, 0.99)
