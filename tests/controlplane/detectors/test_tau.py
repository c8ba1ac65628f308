import numpy as np
import pytest

from controlplane.detectors.tau import cross_bucket_tau, root
from tests.support.routing import SimulatedRouter, incident_bias


def naive_tau_square(counts: np.ndarray) -> np.ndarray:
    """The formula as it stands in the docstring, one layer at a time."""
    buckets = counts.shape[0]
    deviation = counts / counts.mean(axis=2, keepdims=True) - 1.0
    total = deviation.sum(axis=0)
    return ((total**2 - (deviation**2).sum(axis=0)) / (buckets * (buckets - 1))).mean(axis=1)


def naive_jackknife(counts: np.ndarray) -> np.ndarray:
    buckets = counts.shape[0]
    left = np.stack([naive_tau_square(np.delete(counts, b, axis=0)) for b in range(buckets)])
    return np.sqrt((buckets - 1) / buckets * ((left - left.mean(axis=0)) ** 2).sum(axis=0))


def test_the_gram_form_equals_the_formula_and_its_jackknife():
    counts = np.random.default_rng(1).poisson(9.0, size=(8, 3, 32)).astype(np.uint64)
    found = cross_bucket_tau(counts, top_k=2)
    assert found is not None
    np.testing.assert_allclose(found.value, naive_tau_square(counts.astype(float)), atol=1e-5)
    np.testing.assert_allclose(
        found.standard_error, naive_jackknife(counts.astype(float)), rtol=1e-3, atol=1e-6
    )


def test_a_balanced_router_with_strongly_tilted_sequences_shows_no_skew():
    router = SimulatedRouter(tilt=1.0, sequences=24, tokens_per_sequence=64, layers=4, seed=3)
    scores, bucket = router.scores()
    counts = router.counts(scores, np.zeros((4, 128)), bucket)
    raw = counts.sum(axis=0)
    assert (raw.std(axis=1) / raw.mean(axis=1)).min() > 0.15  # what std/mean would report
    found = cross_bucket_tau(counts, top_k=8, min_bucket_tokens=1)
    assert found is not None
    assert (found.low(0.001) <= 0.0).all()


def test_a_biased_router_shows_its_skew_within_the_bounds():
    router = SimulatedRouter(seed=5)
    scores, bucket = router.scores()
    found = cross_bucket_tau(router.counts(scores, incident_bias(2, 128), bucket), top_k=8)
    assert found is not None
    assert root(found.low(0.001)[0]) > 1.0
    assert root(found.high(0.001)[0]) < 2.0


def test_bounds_use_students_t_with_one_degree_less_than_buckets():
    router = SimulatedRouter()
    scores, bucket = router.scores()
    found = cross_bucket_tau(router.counts(scores, np.zeros((2, 128)), bucket), top_k=8)
    assert found is not None
    assert found.buckets == 8
    margin = (found.value - found.low(0.001)) / found.standard_error
    np.testing.assert_allclose(margin, 4.785, atol=0.01)


@pytest.mark.parametrize("empty", [5, 6, 8])
def test_too_few_buckets_with_tokens_give_no_estimate(empty):
    counts = np.full((8, 2, 16), 50, dtype=np.uint64)
    counts[:empty] = 0
    assert cross_bucket_tau(counts, top_k=2) is None


def test_root_of_a_negative_estimate_is_zero():
    assert root(-0.01) == 0.0
