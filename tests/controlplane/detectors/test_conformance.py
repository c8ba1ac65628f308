"""What every detector owes; a new one is covered the day it is registered."""

import json

import numpy as np
import pytest

from controlplane.detectors.evaluate import DETECTORS, evaluate
from controlplane.detectors.finding import Cause, DetectorName, Finding, FindingState
from controlplane.detectors.observed import Observed
from controlplane.detectors.reference import build_reference
from controlplane.detectors.settings import DetectorSettings
from tests.support.engine_windows import window
from tests.support.routing import SimulatedRouter, incident_bias

EVERY = pytest.mark.parametrize("name", list(DETECTORS))
SETTINGS = DetectorSettings()


@pytest.fixture(scope="module")
def drifted() -> Observed:
    router = SimulatedRouter()
    reference = build_reference(router.healthy(8))
    bias, zero = incident_bias(2, 128), np.zeros((2, 128))
    windows = [router.window(i, live=bias, lkg=zero) for i in range(6)]
    return Observed(windows=windows, reference=reference, settings=SETTINGS)


def test_every_name_has_a_detector():
    assert set(DETECTORS) == set(DetectorName)


@EVERY
def test_the_same_windows_give_the_same_finding(name, drifted):
    assert DETECTORS[name](drifted) == DETECTORS[name](drifted)


@EVERY
def test_inputs_are_not_written_to(name, drifted):
    before = [{k: v.copy() for k, v in w.arrays.items()} for w in drifted.windows]
    DETECTORS[name](drifted)
    for old, now in zip(before, drifted.windows, strict=True):
        for key, array in old.items():
            np.testing.assert_array_equal(array, now.arrays[key])


@EVERY
def test_a_finding_names_itself_its_engine_and_its_time_and_survives_json(name, drifted):
    found = DETECTORS[name](drifted)
    assert found.detector is name
    assert found.engine_id == "engine-0"
    assert found.end > found.start
    assert found.message.endswith(".")
    assert Finding.model_validate(json.loads(found.model_dump_json())) == found


@EVERY
def test_windows_without_any_array_are_never_clear_of_what_they_would_show(name):
    bare = [window(i, live="c" * 64, steps=0) for i in range(5)]
    found = DETECTORS[name](Observed(windows=bare, reference=None, settings=SETTINGS))
    told_by_headers = {DetectorName.BIAS_DISTANCE, DetectorName.TELEMETRY_GAP}
    if name not in told_by_headers:
        assert found.state in (FindingState.INCONCLUSIVE, FindingState.WARMING_UP)


@EVERY
def test_one_window_is_not_enough_to_fire(name, drifted):
    one = Observed(
        windows=drifted.windows[-1:], reference=drifted.reference, settings=drifted.settings
    )
    if name is not DetectorName.HOT_EXPERTS:  # it localises, with a false discovery rate of its own
        assert DETECTORS[name](one).state is not FindingState.FIRING


def test_evaluate_gives_every_detector_once_and_one_cause(drifted):
    findings, attribution = evaluate(drifted.windows, drifted.reference, drifted.settings)
    assert [found.detector for found in findings] == list(DETECTORS)
    assert attribution.cause is Cause.BIAS


def test_no_windows_give_no_findings_and_no_cause():
    findings, attribution = evaluate([], None, SETTINGS)
    assert findings == ()
    assert attribution.cause is Cause.UNKNOWN
