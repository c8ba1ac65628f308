import numpy as np
import pytest

from controlplane.detectors.evaluate import evaluate
from controlplane.detectors.finding import Cause, DetectorName, FindingState
from controlplane.detectors.reference import build_reference
from controlplane.detectors.settings import DetectorSettings
from tests.support.engine_windows import window
from tests.support.routing import SimulatedRouter, incident_bias
from tests.support.snapshots import known

ZERO = np.zeros((2, 128))
SETTINGS = DetectorSettings()
DOMAIN = 0.6 * np.random.default_rng(3).standard_normal((2, 1, 128))


@pytest.fixture(scope="module")
def router():
    return SimulatedRouter()


@pytest.fixture(scope="module")
def reference(router):
    return build_reference(router.healthy(12))


def test_a_changed_bias_that_the_good_one_undoes_is_the_cause(router, reference):
    bias = 0.4 * incident_bias(2, 128)
    windows = [router.window(i, live=bias, lkg=ZERO) for i in range(5)]
    _, attribution = evaluate(windows, reference, SETTINGS)
    assert attribution.cause is Cause.BIAS
    assert attribution.bias_changed
    assert known(attribution.excess_removed_ratio) > 0.9


def test_a_domain_shift_under_the_good_bias_is_the_traffic(router, reference):
    windows = [router.window(i, live=ZERO, lkg=ZERO, domain=DOMAIN) for i in range(5)]
    _, attribution = evaluate(windows, reference, SETTINGS)
    assert attribution.cause is Cause.TRAFFIC
    assert not attribution.bias_changed


def test_a_domain_shift_under_a_slightly_changed_bias_is_still_the_traffic(router, reference):
    bias = 0.05 * incident_bias(2, 128)
    windows = [router.window(i, live=bias, lkg=ZERO, domain=DOMAIN) for i in range(5)]
    _, attribution = evaluate(windows, reference, SETTINGS)
    assert attribution.cause is Cause.TRAFFIC
    assert attribution.bias_changed
    assert known(attribution.excess_removed_ratio) < 0.7


def test_a_bias_corrupted_in_one_layer_is_found_by_the_layer_where_routing_differs(
    router, reference
):
    bias = np.zeros((2, 128))
    bias[1] = incident_bias(1, 128)[0]
    windows = [router.window(i, live=bias, lkg=ZERO) for i in range(5)]
    findings, attribution = evaluate(windows, reference, SETTINGS)
    assert findings[0].layer == 1
    assert attribution.cause is Cause.BIAS
    assert attribution.evidence["layers"] == 1


def test_without_a_reference_skew_takes_the_place_of_excess_and_the_evidence_says_so(router):
    windows = [router.window(i, live=incident_bias(2, 128), lkg=ZERO) for i in range(5)]
    _, attribution = evaluate(windows, None, SETTINGS)
    assert attribution.cause is Cause.BIAS
    assert "no reference" in attribution.evidence["basis"]


def cards(index, waits, loads):
    return window(
        index, seconds=10, layers=1, ranks=4, tokens=(4000, 0),
        arrays={"a2a_rank_wait_us": waits, "card_assignments": [loads]},
    )  # fmt: skip


def test_a_rank_that_waits_least_without_more_load_is_slow():
    windows = [cards(i, [4e6, 4e6, 1e5, 4e6], [2000, 2000, 2000, 2000]) for i in range(5)]
    findings, attribution = evaluate(windows, None, SETTINGS)
    straggler = next(f for f in findings if f.detector is DetectorName.STRAGGLER)
    assert straggler.state is FindingState.FIRING
    assert straggler.evidence["rank"] == 2
    assert attribution.cause is Cause.SLOW_RANK


def test_a_rank_that_carries_twice_the_load_is_a_matter_of_placement():
    windows = [cards(i, [4e6, 4e6, 1e5, 4e6], [1000, 1000, 5000, 1000]) for i in range(5)]
    _, attribution = evaluate(windows, None, SETTINGS)
    assert attribution.cause is Cause.PLACEMENT


def test_quiet_windows_have_no_cause(router, reference):
    _, attribution = evaluate(router.healthy(5), reference, SETTINGS)
    assert attribution.cause is Cause.UNKNOWN
