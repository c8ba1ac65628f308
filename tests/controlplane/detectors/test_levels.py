"""Detectors of a plain level: card, overflow, bias distance, telemetry, straggler, hot experts."""

import numpy as np
import pytest

from controlplane.detectors import (
    bias_distance,
    card_level,
    hot_experts,
    overflow,
    straggler,
    telemetry_gap,
)
from controlplane.detectors.finding import FindingState
from controlplane.detectors.hot_experts import benjamini_hochberg
from controlplane.detectors.observed import Observed
from controlplane.detectors.persistence import persistent_state
from controlplane.detectors.reference import build_reference
from controlplane.detectors.settings import DetectorSettings
from tests.support.engine_windows import BAD, window
from tests.support.routing import SimulatedRouter
from tests.support.snapshots import known

SETTINGS = DetectorSettings()


def observed(windows, reference=None) -> Observed:
    return Observed(windows=windows, reference=reference, settings=SETTINGS)


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


def test_the_bias_distance_is_held_against_its_limit():
    near = [window(i, live=BAD, bias_distance=0.01) for i in range(5)]
    far = [window(i, live=BAD, bias_distance=0.2) for i in range(5)]
    assert bias_distance.detect(observed(near)).state is FindingState.CLEAR
    assert bias_distance.detect(observed(far)).state is FindingState.FIRING


@pytest.mark.parametrize(("missing", "covered"), [(1, 10.0), (0, 5.0)])
def test_lost_frames_and_uncovered_time_are_gaps(missing, covered):
    windows = [window(i, missing=missing, covered=covered) for i in range(5)]
    assert telemetry_gap.detect(observed(windows)).state is FindingState.FIRING


def test_full_coverage_is_no_gap():
    windows = [window(i) for i in range(5)]
    assert telemetry_gap.detect(observed(windows)).state is FindingState.CLEAR


def test_short_waits_make_no_straggler():
    windows = [window(i, arrays={"a2a_rank_wait_us": [1e3, 5e4]}) for i in range(5)]
    assert straggler.detect(observed(windows)).state is FindingState.CLEAR


def test_a_straggler_must_be_the_same_rank_each_time():
    waits = [[1e5, 4e6, 4e6], [4e6, 1e5, 4e6], [4e6, 4e6, 1e5], [1e5, 4e6, 4e6], [4e6, 1e5, 4e6]]
    windows = [window(i, ranks=3, arrays={"a2a_rank_wait_us": w}) for i, w in enumerate(waits)]
    assert straggler.detect(observed(windows)).state is FindingState.CLEAR


def test_hot_and_dead_experts_are_named_with_their_share():
    router = SimulatedRouter(seed=9)
    zero, bias = np.zeros((2, 128)), np.zeros((2, 128))
    bias[0, 17], bias[1, 40] = 0.3, -0.6
    reference = build_reference(router.healthy(12))
    windows = [router.window(i, live=bias, lkg=zero) for i in range(5)]
    found = hot_experts.detect(observed(windows, reference))
    assert found.state is FindingState.FIRING
    assert [(e["layer"], e["expert"]) for e in found.evidence["hot"]] == [(0, 17)]
    assert (1, 40) in [(e["layer"], e["expert"]) for e in found.evidence["dead"]]
    assert found.evidence["hot"][0]["share_ratio"] > 2.0


def test_unchanged_traffic_has_no_hot_expert():
    router = SimulatedRouter(seed=10)
    reference = build_reference(router.healthy(12))
    found = hot_experts.detect(observed(router.healthy(5), reference))
    assert found.state is FindingState.CLEAR


def test_benjamini_hochberg_rejects_up_to_the_last_crossing():
    p_values = np.array([[0.001, 0.009, 0.04], [0.035, 0.2, 0.9]])
    rejected = benjamini_hochberg(p_values, 0.05)
    np.testing.assert_array_equal(rejected, [[True, True, False], [False, False, False]])
    assert not benjamini_hochberg(np.ones((2, 2)), 0.05).any()


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
