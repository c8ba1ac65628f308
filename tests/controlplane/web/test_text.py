"""Numbers as people read them."""

import pytest

from controlplane.web.text import in_unit


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (0.1234, "seconds", "123 ms"), (0.66, "tau", "τ 0.66"), (0.31, "cv", "CV 0.31"),
        (0.12, "psi", "PSI 0.12"), (2.5, "× reference share", "2.5 × reference share"),
        (0.42, "time", "42.0 % of the time"), (0.999, "covered", "99.9 % of the time covered"),
        (0.5, "logit", "0.5 logit"), (0.5, "ratio", "0.5"), (None, "tau", "–"),
    ],
)  # fmt: skip
def test_a_finding_shows_its_value_in_its_unit(value, unit, shown):
    assert in_unit(value, unit) == shown
