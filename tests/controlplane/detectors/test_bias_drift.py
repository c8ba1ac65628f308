import numpy as np
import pytest

from controlplane.detectors import bias_drift
from controlplane.detectors.finding import FindingState
from controlplane.detectors.observed import Observed
from controlplane.detectors.settings import DetectorSettings
from tests.support.engine_windows import BAD, GOOD, window
from tests.support.routing import SimulatedRouter, incident_bias
from tests.support.snapshots import known

ZERO = np.zeros((2, 128))


def observed(windows, **settings) -> Observed:
    return Observed(windows=windows, reference=None, settings=DetectorSettings(**settings))


def drifting(router, part, num=5, first=0):
    bias = part * incident_bias(2, 128)
    return [router.window(first + i, live=bias, lkg=ZERO) for i in range(num)]


def wrong_sign_ramp(router, part):
    """A regulator with the wrong sign: popular experts are pushed up, the others down."""
    order = np.argsort(np.random.default_rng(0).random((2, 128)), axis=1)
    pushed = np.where(order < 20, 0.242, 0.0)
    return [router.window(i, live=part * pushed, lkg=ZERO) for i in range(5)]


def test_the_incident_fires_with_its_size_its_layer_and_its_evidence():
    found = bias_drift.detect(observed(drifting(SimulatedRouter(), 1.0)))
    assert found.state is FindingState.FIRING
    assert known(found.low) > 1.2
    assert known(found.low) < known(found.value) < known(found.high)
    assert found.layer in (0, 1)
    assert found.n == 48 * 32
    assert found.evidence["tau_live"] > found.evidence["tau_lkg"]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_wrong_sign_ramp_is_found_by_30_percent_of_it(seed):
    router = SimulatedRouter(seed=seed, sequences=64, tokens_per_sequence=48)
    fired = [
        part for part in (0.1, 0.2, 0.3)
        if bias_drift.detect(observed(wrong_sign_ramp(router, part))).state is FindingState.FIRING
    ]  # fmt: skip
    assert fired == [0.3]


@pytest.mark.parametrize("seed", range(6))
def test_strong_traffic_skew_under_a_harmless_new_bias_does_not_fire(seed):
    router = SimulatedRouter(seed=seed, tilt=0.6)
    domain = 0.6 * np.random.default_rng(seed).standard_normal((2, 1, 128))
    small = 0.002 * np.random.default_rng(seed + 50).standard_normal((2, 128))
    windows = [router.window(i, live=small, lkg=ZERO, domain=domain) for i in range(5)]
    assert bias_drift.detect(observed(windows)).state is FindingState.CLEAR


def test_the_last_known_good_bias_adds_exactly_nothing():
    found = bias_drift.detect(observed(SimulatedRouter().healthy(5)))
    assert found.state is FindingState.CLEAR
    assert found.value == 0.0


def test_it_clears_once_the_good_bias_has_been_live_for_three_of_five_windows():
    router = SimulatedRouter()
    windows = drifting(router, 1.0)
    states = []
    for extra in range(1, 4):
        windows = [*windows, router.healthy(1, first=4 + extra)[0]]
        states.append(bias_drift.detect(observed(windows)).state)
    assert states == [FindingState.FIRING, FindingState.FIRING, FindingState.CLEAR]


def test_without_a_good_bias_it_cannot_say():
    windows = [window(i, live=BAD, lkg=None) for i in range(5)]
    found = bias_drift.detect(observed(windows))
    assert found.state is FindingState.INCONCLUSIVE
    assert "No bias is marked good" in found.message


def test_too_few_sampled_tokens_are_inconclusive_not_clear():
    router = SimulatedRouter(sequences=8, tokens_per_sequence=4)
    found = bias_drift.detect(observed(drifting(router, 1.0), max_widen=1))
    assert found.state is FindingState.INCONCLUSIVE
    assert "Fewer than 512 sampled tokens" in found.message


def test_thin_windows_are_widened_until_they_say_enough():
    router = SimulatedRouter(sequences=24, tokens_per_sequence=8)
    found = bias_drift.detect(observed(drifting(router, 1.0, num=8), min_sampled_tokens=500))
    assert found.state is FindingState.FIRING
    assert found.n >= 500


def test_windows_held_against_another_good_bias_are_left_out():
    router = SimulatedRouter()
    old = [window(i, live=BAD, lkg="c" * 64, arrays=w.arrays, layers=2, experts=128, top_k=8)
           for i, w in enumerate(drifting(router, 1.0, num=4))]  # fmt: skip
    found = bias_drift.detect(observed([*old, router.healthy(1, first=4)[0]]))
    assert found.state is FindingState.WARMING_UP


def test_a_window_with_both_biases_is_not_taken_for_the_good_one():
    assert bias_drift.is_last_known_good(window(0))
    assert not bias_drift.is_last_known_good(window(0, live_biases=(GOOD, BAD)))
    assert not bias_drift.is_last_known_good(window(0, live=BAD))


def test_the_estimate_needs_both_sides():
    arrays = {"bucket_whatif_live": np.ones((8, 2, 16))}
    assert bias_drift.estimate([window(0, live=BAD, arrays=arrays)], DetectorSettings()) is None
