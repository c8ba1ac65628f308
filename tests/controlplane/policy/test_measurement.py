import numpy as np
import pytest

from controlplane.policy.measurement import Measurement, measure
from controlplane.slo.settings import SloSettings
from controlplane.slo.status import SloName
from tests.support.engine_windows import BAD, GOOD, histogram, window

SLO = SloSettings()


def served(index):
    new = {
        "ttft": histogram("ttft", good=9, bad=1, threshold=0.2),
        "tpot": histogram("tpot", good=8, bad=2, threshold=0.05),
        "generation_overflow": 40, "generation_assignments": 2000,
    }  # fmt: skip
    old = {
        "ttft": histogram("ttft", good=0, bad=50, threshold=0.2),
        "tpot": histogram("tpot", good=0, bad=50, threshold=0.05),
        "generation_overflow": 900, "generation_assignments": 1000,
    }  # fmt: skip
    arrays = {"assignments": np.full((2, 2, 16), 46.875), "overflow": [470, 470]}
    return window(index, arrays=arrays, by_generation={2: new, 1: old}, probe_nll=1.4)


def test_only_the_new_generation_is_measured_after_a_change():
    found = measure([served(0), served(1)], SLO, generation=2, breached=[SloName.TTFT])
    assert (found.ttft.bad, found.ttft.total) == (2, 20)
    assert (found.tpot.bad, found.tpot.total) == (4, 20)
    assert found.overflow_ratio == pytest.approx(0.02)
    assert found.overflow_slices == pytest.approx((0.02, 0.02))
    assert found.probe_nll == 1.4
    assert found.breached == (SloName.TTFT,)


def test_without_a_generation_everything_counts():
    found = measure([served(0)], SLO)
    assert (found.ttft.bad, found.ttft.total) == (51, 60)
    assert found.overflow_ratio == pytest.approx(0.31, abs=0.02)


def test_the_last_known_good_bias_agrees_with_itself():
    assert measure([window(0)], SLO).share_distance == 0.0


def test_the_distance_of_shares_is_that_of_the_worst_layer():
    live = np.full((2, 4), 25.0)
    lkg = live.copy()
    lkg[1] = [50, 50, 0, 0]
    found = measure(
        [window(0, live=BAD, lkg=GOOD, arrays={"whatif_live": live, "whatif_lkg": lkg})], SLO
    )
    assert found.share_distance == pytest.approx(0.5)
    assert measure([window(0, live=BAD)], SLO).share_distance is None


def test_no_windows_measure_nothing():
    assert measure([], SLO, generation=3) == Measurement(generation=3)
