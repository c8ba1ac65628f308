"""τ is measured without the noise of a finite sample, and without that of long sequences."""

import math

import numpy as np
import pytest

from engine.moe.skew import bucket_tau, count_tau, debiased_cv


def counts_of(shares, tokens, top_k, random):
    """Counts of `tokens` that each pick top_k distinct experts by Gumbel top-k."""
    noise = random.gumbel(size=(tokens, len(shares)))
    ids = np.argsort(-(np.log(shares) + noise), axis=1)[:, :top_k]
    return np.bincount(ids.ravel(), minlength=len(shares))


def test_uniform_routing_has_no_skew_though_its_raw_cv_is_large():
    random = np.random.default_rng(0)
    counts = np.array([counts_of(np.ones(128), 64, 8, random) for _ in range(200)])
    raw = counts.std(-1) / counts.mean(-1)
    assert raw.mean() == pytest.approx(0.486, abs=0.02)
    assert np.mean(debiased_cv(counts, 8) ** 2) < 0.03
    pooled, error = count_tau(counts.sum(0), 8)
    assert pooled < 0.04
    assert 0 < error < 0.1


def test_known_skew_is_found_from_counts_and_from_buckets():
    random = np.random.default_rng(1)
    shares = np.where(np.arange(64) < 10, 3.0, 1.0)
    buckets = np.array([counts_of(shares, 600, 4, random) for _ in range(8)])
    truth = counts_of(shares, 60000, 4, random)
    truth_cv = truth.std() / truth.mean()
    for tau, error in (bucket_tau(buckets), count_tau(buckets.sum(0), 4)):
        assert tau == pytest.approx(truth_cv, abs=0.05)
        assert error < 0.05


def test_sequences_that_repeat_themselves_fool_counts_and_not_buckets():
    random = np.random.default_rng(2)
    buckets = []
    for _ in range(8):
        tilt = np.exp(random.normal(0, 1.0, 64))
        buckets.append(counts_of(tilt, 500, 4, random))
    assert count_tau(np.sum(buckets, axis=0), 4)[0] > 0.25
    tau, error = bucket_tau(np.array(buckets))
    assert tau < 0.15 + 2 * error


def test_too_little_gives_nan():
    assert math.isnan(bucket_tau(np.array([[1, 2], [3, 4], [0, 0]]))[0])
    assert math.isnan(count_tau(np.zeros(8, dtype=np.int64), 2)[0])
    assert debiased_cv(np.zeros((2, 8), dtype=np.int64), 2).tolist() == [0.0, 0.0]
