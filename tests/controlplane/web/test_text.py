"""Numbers as people read them."""

import pytest

from controlplane.slo.status import SloName, SloState, SloStatus
from controlplane.web.text import in_unit, slo_value


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


@pytest.mark.parametrize(
    ("value", "more", "shown"),
    [(0.1, False, "p99 100 ms"), (30.0, True, "p99 > 30 s"), (None, False, "–")],
)
def test_a_p99_above_the_last_bound_is_shown_as_more_than_it(value, more, shown):
    status = SloStatus(
        slo=SloName.TTFT, state=SloState.BREACHED, objective=0.99, threshold=0.2, value=value,
        value_is_more=more, room_ratio=None, budget_remaining_ratio=None, n=1,
    )  # fmt: skip
    assert slo_value(status) == shown
