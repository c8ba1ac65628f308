import numpy as np

from controlplane.detectors import slow_trend
from controlplane.detectors.finding import FindingState
from controlplane.detectors.observed import Observed
from controlplane.detectors.settings import DetectorSettings
from tests.support.engine_windows import window


def day(rise: float):
    """Hourly windows; τ goes from 0.2 up by `rise` in layer 1, and stays in layer 0."""
    random, windows = np.random.default_rng(2), []
    pattern = random.standard_normal(32)
    for hour in range(30):
        skew = np.array([0.2, 0.2 + rise * hour / 29])
        shares = np.maximum(0.01, 1.0 + skew[:, None] * pattern)
        buckets = random.poisson(200 * shares, size=(8, 2, 32))
        arrays = {"bucket_assignments": buckets}
        windows.append(window(hour, seconds=3600, experts=32, arrays=arrays))
    return windows


def detect(long_windows):
    return slow_trend.detect(
        Observed(
            windows=[window(0)], reference=None, settings=DetectorSettings(),
            long_windows=long_windows,
        )
    )  # fmt: skip


def test_a_slow_rise_over_a_day_is_a_finding_in_its_layer():
    found = detect(day(0.3))
    assert found.state is FindingState.FIRING
    assert found.layer == 1
    assert found.low > 0


def test_a_level_day_is_clear():
    assert detect(day(0.0)).state is FindingState.CLEAR


def test_a_short_history_warms_up():
    found = detect(day(0.3)[:6])
    assert found.state is FindingState.WARMING_UP
    assert "12 h are needed" in found.message
