import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from prometheus_client.utils import floatToGoString

from contract.bucket_labels import LARGEST, SMALLEST, at_or_above
from contract.histograms import TPOT_OBJECTIVE_SECONDS, TTFT_OBJECTIVE_SECONDS

BOUNDS = st.floats(SMALLEST, LARGEST, exclude_max=True).map(lambda value: float(f"{value:.4g}"))
WRITERS = (floatToGoString, repr, "{:g}".format)


def is_above(bound: float, label: str) -> bool:
    return re.fullmatch(at_or_above(bound), label) is not None


@given(
    BOUNDS.filter(lambda bound: bound < LARGEST),
    st.floats(1e-7, 1e9).map(lambda value: float(f"{value:.5g}")),
    st.sampled_from(WRITERS),
)
@example(TTFT_OBJECTIVE_SECONDS, 0.2, str)
@example(TTFT_OBJECTIVE_SECONDS, 5e-05, str)
@example(TPOT_OBJECTIVE_SECONDS, 0.05, str)
@example(TPOT_OBJECTIVE_SECONDS, 0.045, str)
def test_a_label_matches_as_its_number_compares(bound, value, write):
    label = write(value)
    assert is_above(bound, label) == (float(label) >= bound)


@pytest.mark.parametrize("label", ["+Inf", "0.25", "1", "1.0", "10", "2560.0", "1e+06", "0.20"])
def test_what_servers_write_above_the_first_token_objective(label):
    assert is_above(TTFT_OBJECTIVE_SECONDS, label)


@pytest.mark.parametrize("label", ["0.1", "0.19", "0", "0.0", "1e-05", "2e-05", "NaN", "", "-1"])
def test_what_lies_below_it_or_is_no_number(label):
    assert not is_above(TTFT_OBJECTIVE_SECONDS, label)


@pytest.mark.parametrize("bound", [0.0, 5e-05, 1e6])
def test_a_bound_that_some_client_writes_with_an_exponent_is_refused(bound):
    with pytest.raises(ValueError, match="outside"):
        at_or_above(bound)
