"""Layer rows: shapes of load in plain numbers."""

import math

import numpy as np
import pytest

from controlplane.history.layer_summary import summarise
from controlplane.history.summing import sum_frames
from tests.support.frames import START, make_frame


def _window(**how):
    frame = make_frame(0, **how)
    window = sum_frames("e0", START, START + 1, [frame])
    assert window is not None
    return frame, window


def test_a_row_has_the_formulas_of_its_layer():
    frame, window = _window(experts=50, fill=30, rng=np.random.default_rng(3))
    rows = summarise(window, 60, 120)
    load = frame.arrays["assignments"][:, 1].sum(axis=0).astype(float)
    total = load.sum()
    variance = load.var() / load.mean() ** 2
    assert [(row["layer"], row["tier"], row["t0"]) for row in rows] == [(0, 60, 120), (1, 60, 120)]
    row = rows[1]
    assert row["assignments"] == total
    assert row["load_cv_ratio"] == pytest.approx(math.sqrt(variance))
    debiased = math.sqrt(max(0.0, variance - (50 - 2) / total))
    assert row["load_cv_debiased_ratio"] == pytest.approx(debiased)
    assert row["max_over_mean_ratio"] == pytest.approx(load.max() / load.mean())
    assert row["top_share_ratio"] == pytest.approx(np.sort(load)[-8:].sum() / total)
    assert row["hot_expert"] == load.argmax()
    assert row["overflow"] == frame.arrays["overflow"][1]
    assert row["dispatch_p50_seconds"] > 0


def test_a_layer_without_assignments_has_no_shape():
    _, window = _window(fill=0, arrays=("assignments",))
    (row, _) = summarise(window, 60, 0)
    assert (row["assignments"], row["load_cv_ratio"], row["hot_expert"]) == (0, None, None)
    assert (row["overflow"], row["dispatch_p99_seconds"]) == (0, None)


def test_arrays_of_a_model_with_other_layers_are_left_out():
    old = make_frame(0, layers=3, arrays=("overflow", "assignments"), fill=5)
    new = make_frame(1, layers=2, arrays=("executed",), fill=7)
    window = sum_frames("e0", START, START + 2, [old, new])
    assert window is not None
    rows = summarise(window, 60, 0)
    assert [(row["overflow"], row["executed"], row["assignments"]) for row in rows] == [
        (0, 7, 0)
    ] * 2
