import numpy as np

from controlplane.detectors import overflow
from controlplane.detectors.finding import FindingState
from controlplane.detectors.observed import Observed
from controlplane.detectors.settings import DetectorSettings
from tests.support.engine_windows import window

SETTINGS = DetectorSettings()


def observed(windows) -> Observed:
    return Observed(windows=windows, reference=None, settings=SETTINGS)


def flowing(index, ratio, total=20_000):
    counts = np.full((2, 2, 16), total / 64)
    return window(index, arrays={"assignments": counts, "overflow": [0.0, ratio * total / 2]})


def test_overflow_names_the_worst_layer_in_three_of_five_windows():
    two = [flowing(i, 0.2 if i < 2 else 0.01) for i in range(5)]
    three = [flowing(i, 0.2 if i < 3 else 0.01) for i in range(5)]
    assert overflow.detect(observed(two)).state is FindingState.CLEAR
    found = overflow.detect(observed(three))
    assert found.state is FindingState.FIRING
    assert found.layer == 1


def test_overflow_of_thin_windows_is_inconclusive():
    windows = [flowing(i, 0.5, total=640) for i in range(5)]
    assert overflow.detect(observed(windows)).state is FindingState.INCONCLUSIVE
