from controlplane.detectors import straggler
from controlplane.detectors.finding import FindingState
from controlplane.detectors.observed import Observed
from controlplane.detectors.settings import DetectorSettings
from tests.support.engine_windows import window

SETTINGS = DetectorSettings()


def observed(windows) -> Observed:
    return Observed(windows=windows, reference=None, settings=SETTINGS)


def test_short_waits_make_no_straggler():
    windows = [window(i, arrays={"a2a_rank_wait_us": [1e3, 5e4]}) for i in range(5)]
    assert straggler.detect(observed(windows)).state is FindingState.CLEAR


def test_a_straggler_must_be_the_same_rank_each_time():
    waits = [[1e5, 4e6, 4e6], [4e6, 1e5, 4e6], [4e6, 4e6, 1e5], [1e5, 4e6, 4e6], [4e6, 1e5, 4e6]]
    windows = [window(i, ranks=3, arrays={"a2a_rank_wait_us": w}) for i, w in enumerate(waits)]
    assert straggler.detect(observed(windows)).state is FindingState.CLEAR
