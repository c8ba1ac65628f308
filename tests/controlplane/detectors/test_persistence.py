import pytest

from controlplane.detectors.finding import FindingState
from controlplane.detectors.persistence import persistent_state
from controlplane.detectors.settings import DetectorSettings

SETTINGS = DetectorSettings()


@pytest.mark.parametrize(
    ("holds", "windows", "state"),
    [
        ([True, True, True], 3, FindingState.FIRING),
        ([True, False, True, None, True], 5, FindingState.FIRING),
        ([True, True, False, False, False], 5, FindingState.CLEAR),
        ([None, None, None, True, False], 5, FindingState.INCONCLUSIVE),
        ([True, True], 2, FindingState.WARMING_UP),
        ([True, True, True, False, False, False, False], 7, FindingState.CLEAR),
    ],
)
def test_three_of_five(holds, windows, state):
    assert persistent_state(holds, windows, SETTINGS) is state
