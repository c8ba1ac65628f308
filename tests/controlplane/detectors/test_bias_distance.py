from controlplane.detectors import bias_distance
from controlplane.detectors.finding import FindingState
from controlplane.detectors.observed import Observed
from controlplane.detectors.settings import DetectorSettings
from tests.support.engine_windows import BAD, window

SETTINGS = DetectorSettings()


def observed(windows) -> Observed:
    return Observed(windows=windows, reference=None, settings=SETTINGS)


def test_the_bias_distance_is_held_against_its_limit():
    near = [window(i, live=BAD, bias_distance=0.01) for i in range(5)]
    far = [window(i, live=BAD, bias_distance=0.2) for i in range(5)]
    assert bias_distance.detect(observed(near)).state is FindingState.CLEAR
    assert bias_distance.detect(observed(far)).state is FindingState.FIRING
