import numpy as np
import pytest

from controlplane.detectors.reference import LoadReference, build_reference
from tests.support.engine_windows import GOOD, window
from tests.support.routing import SimulatedRouter


@pytest.fixture(scope="module")
def reference() -> LoadReference:
    found = build_reference(SimulatedRouter().healthy(10))
    assert found is not None
    return found


def test_shares_are_positive_and_sum_to_one(reference):
    assert (reference.shares > 0).all()
    np.testing.assert_allclose(reference.shares.sum(axis=1), 1.0)
    assert reference.windows == 10
    assert reference.bias_hash == GOOD
    assert reference.totals[0] == 10 * 48 * 32 * 8


def test_sequence_correlation_shows_as_a_design_effect_above_one(reference):
    assert (reference.design_effect > 1.2).all()


def test_bytes_give_the_same_reference_back(reference):
    again = LoadReference.from_bytes(reference.to_bytes())
    for name in ("shares", "totals", "design_effect", "score_centre", "score_spread"):
        np.testing.assert_array_equal(getattr(again, name), getattr(reference, name))
    assert (again.engine_id, again.start, again.top_k) == (
        reference.engine_id, reference.start, reference.top_k,
    )  # fmt: skip


def test_windows_without_assignments_make_no_reference():
    assert build_reference([window(0), window(1)]) is None
