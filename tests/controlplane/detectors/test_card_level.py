import numpy as np
import pytest

from controlplane.detectors import card_level
from controlplane.detectors.finding import FindingState
from controlplane.detectors.observed import Observed
from controlplane.detectors.settings import DetectorSettings
from tests.support.engine_windows import window
from tests.support.snapshots import known

SETTINGS = DetectorSettings()


def observed(windows) -> Observed:
    return Observed(windows=windows, reference=None, settings=SETTINGS)


def card(index, loads):
    arrays = {"card_assignments": [loads]}
    return window(index, layers=1, experts=64, top_k=8, ranks=len(loads), arrays=arrays)


def test_even_ranks_are_clear_and_uneven_ones_fire():
    even = [card(i, [5000, 5100, 4900, 5000]) for i in range(5)]
    uneven = [card(i, [9000, 3600, 3700, 3700]) for i in range(5)]
    assert card_level.detect(observed(even)).state is FindingState.CLEAR
    found = card_level.detect(observed(uneven))
    assert found.state is FindingState.FIRING
    assert found.value == pytest.approx(0.46, abs=0.01)
    assert known(found.low) > 0.3


def test_uniform_noise_on_many_ranks_is_taken_off_the_card_level():
    random = np.random.default_rng(5)
    windows = [card(i, random.multinomial(2400, np.full(64, 1 / 64))) for i in range(5)]
    found = card_level.detect(observed(windows))
    assert found.evidence["raw_cv"] > 0.13
    assert known(found.value) < 0.1
    assert found.state is FindingState.CLEAR


def test_one_rank_has_no_card_level():
    windows = [window(i, ranks=1) for i in range(5)]
    assert card_level.detect(observed(windows)).state is FindingState.INCONCLUSIVE
