import numpy as np

from controlplane.detectors import hot_experts
from controlplane.detectors.finding import FindingState
from controlplane.detectors.hot_experts import benjamini_hochberg
from controlplane.detectors.observed import Observed
from controlplane.detectors.reference import build_reference
from controlplane.detectors.settings import DetectorSettings
from tests.support.routing import SimulatedRouter
from tests.support.snapshots import known

SETTINGS = DetectorSettings()


def observed(windows, reference=None) -> Observed:
    return Observed(windows=windows, reference=reference, settings=SETTINGS)


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


def test_value_and_threshold_have_the_same_unit_and_the_message_its_bounds():
    router = SimulatedRouter(seed=9)
    zero, bias = np.zeros((2, 128)), np.zeros((2, 128))
    bias[0, 17] = 0.3
    reference = build_reference(router.healthy(12))
    windows = [router.window(i, live=bias, lkg=zero) for i in range(5)]
    found = hot_experts.detect(observed(windows, reference))
    assert found.unit == "× reference share"
    assert found.value == max(e["share_ratio"] for e in found.evidence["hot"])
    assert found.threshold == SETTINGS.hot_share_ratio
    assert known(found.value) > SETTINGS.hot_share_ratio
    assert "at least 2 times the reference share" in found.message
    assert 0 < found.evidence["hot_share"] < 1


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
