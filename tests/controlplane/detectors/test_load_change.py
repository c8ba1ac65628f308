import numpy as np
import pytest

from controlplane.detectors import load_change
from controlplane.detectors.finding import FindingState
from controlplane.detectors.observed import Observed
from controlplane.detectors.reference import build_reference
from controlplane.detectors.settings import DetectorSettings
from tests.support.engine_windows import window
from tests.support.routing import SimulatedRouter

ZERO = np.zeros((2, 128))


@pytest.fixture(scope="module")
def router():
    return SimulatedRouter()


@pytest.fixture(scope="module")
def reference(router):
    return build_reference(router.healthy(20))


def detect(windows, reference, **settings):
    return load_change.detect(
        Observed(windows=windows, reference=reference, settings=DetectorSettings(**settings))
    )


def test_unchanged_traffic_is_clear(router, reference):
    found = detect(router.healthy(15), reference)
    assert found.state is FindingState.CLEAR
    assert found.low <= found.value <= found.high


def test_a_domain_shift_fires_with_its_effect(router, reference):
    domain = 0.5 * np.random.default_rng(1).standard_normal((2, 1, 128))
    windows = router.healthy(8) + [
        router.window(8 + i, live=ZERO, lkg=ZERO, domain=domain) for i in range(4)
    ]
    found = detect(windows, reference)
    assert found.state is FindingState.FIRING
    assert found.value > 0.1


def test_a_change_that_is_significant_but_small_does_not_pass_the_effect_gate(router, reference):
    domain = 0.12 * np.random.default_rng(1).standard_normal((2, 1, 128))
    windows = [router.window(i, live=ZERO, lkg=ZERO, domain=domain) for i in range(15)]
    found = detect(windows, reference)
    assert found.evidence["cusum"] > 7.5
    assert found.state is FindingState.CLEAR


def test_it_warms_up_without_a_reference(router):
    assert detect(router.healthy(3), None).state is FindingState.WARMING_UP


def test_thin_windows_are_inconclusive(reference):
    arrays = {"assignments": np.ones((2, 2, 128))}
    windows = [window(i, arrays=arrays, layers=2, experts=128, top_k=8) for i in range(5)]
    assert detect(windows, reference).state is FindingState.INCONCLUSIVE
