import pytest

from controlplane.detectors import telemetry_gap
from controlplane.detectors.finding import FindingState
from controlplane.detectors.observed import Observed
from controlplane.detectors.settings import DetectorSettings
from tests.support.engine_windows import window

SETTINGS = DetectorSettings()


def observed(windows) -> Observed:
    return Observed(windows=windows, reference=None, settings=SETTINGS)


@pytest.mark.parametrize(("missing", "covered"), [(1, 10.0), (0, 5.0)])
def test_lost_frames_and_uncovered_time_are_gaps(missing, covered):
    windows = [window(i, missing=missing, covered=covered) for i in range(5)]
    assert telemetry_gap.detect(observed(windows)).state is FindingState.FIRING


def test_full_coverage_is_no_gap():
    windows = [window(i) for i in range(5)]
    assert telemetry_gap.detect(observed(windows)).state is FindingState.CLEAR


def test_an_outage_of_whole_windows_is_a_gap_once_telemetry_is_back():
    windows = [window(i) for i in (0, 1, 2, 9, 10)]
    found = telemetry_gap.detect(observed(windows))
    assert found.state is FindingState.FIRING
    assert found.value == pytest.approx(5 / 11)


@pytest.mark.parametrize(
    ("windows", "state"), [(1, FindingState.WARMING_UP), (2, FindingState.WARMING_UP),
                           (3, FindingState.CLEAR), (5, FindingState.CLEAR)],
)  # fmt: skip
def test_time_before_the_first_frame_of_an_engine_is_no_gap(windows, state):
    begun = [window(0, covered=2.0), *(window(i) for i in range(1, windows))]
    found = telemetry_gap.detect(observed(begun))
    assert (found.state, found.value) == (state, 1.0)
    assert found.start == begun[0].end - 2.0


def test_a_window_that_is_not_the_first_is_due_whole():
    windows = [window(0), *(window(i, covered=2.0 if i == 1 else 7.5) for i in range(1, 6))]
    assert telemetry_gap.detect(observed(windows)).state is FindingState.FIRING
