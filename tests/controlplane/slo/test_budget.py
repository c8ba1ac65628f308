"""What is left of an error budget, and when nothing can be said."""

import pytest

from controlplane.slo.budget import budget_remaining
from controlplane.slo.evaluate import evaluate
from controlplane.slo.settings import SloSettings
from controlplane.slo.status import SloState
from tests.support.engine_windows import histogram, window


def left(bad: int, total: int, state: SloState = SloState.MET) -> float | None:
    return budget_remaining(bad, total, budget=1.0 - 0.99, state=state)


def test_from_as_many_events_on_as_make_one_bad_one_affordable_it_is_a_share():
    assert left(0, 100) == 1.0
    assert left(1, 100) == pytest.approx(0.0, abs=1e-9)
    assert left(1, 200) == pytest.approx(0.5)
    assert left(3, 100, SloState.BREACHED) == pytest.approx(-2.0)


def test_a_breach_is_sure_enough_to_say_what_it_spent():
    assert left(40, 40, SloState.BREACHED) == pytest.approx(-99.0)


@pytest.mark.parametrize(
    ("bad", "total", "state"),
    [(0, 0, SloState.MET), (1, 1, SloState.MET), (0, 99, SloState.MET),
     (5, 1000, SloState.INCONCLUSIVE)],
)  # fmt: skip
def test_below_that_or_without_a_verdict_nothing_is_said(bad, total, state):
    assert left(bad, total, state) is None


def test_one_slow_request_of_an_idle_engine_is_inconclusive_with_a_blank_budget():
    cells = {name: histogram(name, good=0, bad=1, threshold=limit)
             for name, limit in (("ttft", 0.2), ("tpot", 0.05))}  # fmt: skip
    windows = [window(0, by_generation={1: cells}), *(window(i) for i in range(1, 60))]
    for status in evaluate(windows, windows[-1].end, SloSettings()):
        assert status.state is SloState.INCONCLUSIVE
        assert status.budget_remaining_ratio is None


def test_without_telemetry_the_budget_is_blank_too():
    cells = {"ttft": histogram("ttft", good=200, bad=0, threshold=0.2)}
    windows = [window(i, by_generation={1: cells}) for i in range(60)]
    assert evaluate(windows, windows[-1].end, SloSettings())[0].budget_remaining_ratio == 1.0
    late = evaluate(windows, windows[-1].end + 3600.0, SloSettings())[0]
    assert (late.state, late.budget_remaining_ratio) == (SloState.STALE, None)
