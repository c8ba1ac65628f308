import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.slo.proportion import lower_bound


def test_the_bound_is_that_of_clopper_and_pearson():
    # the textbook's exact 95 % two-sided interval of 10 in 100: 0.0490 to 0.1762
    assert lower_bound(10, 100, 0.975) == pytest.approx(0.0490, abs=1e-4)


def test_nothing_seen_bounds_nothing():
    assert lower_bound(0, 0, 0.99) == 0.0
    assert lower_bound(0, 50, 0.99) == 0.0


@given(st.integers(1, 500), st.integers(0, 500))
def test_the_bound_lies_below_the_observed_ratio(total, bad):
    bad = min(bad, total)
    assert lower_bound(bad, total, 0.99) <= bad / total
