import numpy as np
import pytest

from controlplane.slo.evaluate import evaluate
from controlplane.slo.overflow import cut, judge
from controlplane.slo.settings import OverflowObjective, SloSettings
from controlplane.slo.status import SloState
from tests.support.engine_windows import window

OBJECTIVE = OverflowObjective()


def flow(ratios, *, seconds=10.0, assignments=20_000):
    windows = []
    for index, ratio in enumerate(ratios):
        counts = np.full((2, 2, 16), assignments / 64)
        over = [0.5 * ratio * assignments / 2, 1.5 * ratio * assignments / 2]
        windows.append(
            window(index, seconds=seconds, arrays={"assignments": counts, "overflow": over})
        )
    return windows


def status(ratios, **kwargs):
    windows = flow(ratios, **kwargs)
    return evaluate(windows, windows[-1].end + 1, SloSettings())[2]


@pytest.mark.parametrize(
    ("ratios", "state"),
    [
        ([0.06, 0.06, 0.06, 0.01, 0.01], SloState.BREACHED),
        ([0.06, 0.06, 0.01, 0.01, 0.01], SloState.MET),
        ([0.06, 0.06, None, 0.01, 0.01], SloState.INCONCLUSIVE),
        ([0.01, 0.01, 0.01], SloState.MET),
        ([0.01, 0.01], SloState.INCONCLUSIVE),
        ([], SloState.INCONCLUSIVE),
        ([0.06, 0.06, 0.06, 0.01, 0.01, 0.01, 0.01, 0.01], SloState.MET),
    ],
)
def test_three_of_five_slices_and_unknown_ones_are_not_good(ratios, state):
    assert judge(ratios, OBJECTIVE) is state


def test_the_status_tells_slices_ratio_and_the_worst_layer():
    found = status([0.01, 0.01, 0.08, 0.08, 0.08])
    assert found.state is SloState.BREACHED
    assert found.value == pytest.approx(0.052, abs=0.001)
    assert len(found.slices) == 5
    assert "worst layer 1" in found.message


def test_slices_with_too_few_assignments_cannot_say():
    found = status([0.5] * 5, assignments=6400)
    assert found.state is SloState.INCONCLUSIVE
    assert found.slices == (None,) * 5


def test_short_windows_are_put_together_and_an_incomplete_slice_is_left_out():
    slices = cut(flow([0.1] * 5, seconds=5.0, assignments=6400), 10.0)
    assert [piece.seconds for piece in slices] == [10.0, 10.0]
    assert slices[0].assignments == 12_800


def test_windows_without_counts_make_a_slice_that_cannot_say():
    windows = [window(i) for i in range(5)]
    assert evaluate(windows, windows[-1].end, SloSettings())[2].state is SloState.INCONCLUSIVE


def test_an_engine_without_layers_has_slices_that_cannot_say():
    arrays = {"assignments": np.zeros((2, 0, 16)), "overflow": np.zeros(0)}
    windows = [window(i, arrays=arrays, layers=0) for i in range(5)]
    assert evaluate(windows, windows[-1].end, SloSettings())[2].state is SloState.INCONCLUSIVE


def test_calm_needs_good_slices_for_the_relax_time():
    assert status([0.01] * 30).calm
    assert not status([0.01] * 29).calm
    assert not status([0.01] * 20 + [0.06] + [0.01] * 20).calm


def test_the_budget_is_spent_in_slices():
    assert status([0.01] * 99 + [0.06]).budget_remaining_ratio == pytest.approx(0.0, abs=1e-9)
