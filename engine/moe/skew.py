"""Skew of expert load: τ from buckets of requests, τ from counts, and their standard errors. numpy.

τ is the coefficient of variation of the selection probabilities themselves, with the noise of a
finite sample taken out.
"""

import math

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def debiased_cv(counts: npt.NDArray[np.int64], top_k: int) -> Floats:
    """√max(0, CV² - (E - k)/(T·k)) over the last axis; population std. 0 where there is no load.

    (E - k)/(T·k) is the CV² of uniform routing alone, top-k without replacement.
    """
    experts = counts.shape[-1]
    total = counts.sum(-1)
    mean = np.maximum(total, 1) / experts
    noise = (experts - top_k) / np.maximum(total, 1)
    squared = (counts.std(-1) / mean) ** 2 - noise
    return np.where(total > 0, np.sqrt(np.maximum(0.0, squared)), 0.0)


def bucket_tau(buckets: npt.NDArray[np.int64]) -> tuple[float, float]:
    """τ of one layer and its standard error from int64 [B, E] counts by request bucket.

    τ² = mean_e [((Σ_b x)² - Σ_b x²) / (B(B-1))] with x = n / mean - 1: products of different
    buckets only, so that whatever correlates tokens inside a sequence cancels. Standard error by
    delete-one-bucket jackknife. NaN below three buckets with load.
    """
    held = buckets[buckets.sum(1) > 0].astype(np.float64)
    if len(held) < 3:
        return math.nan, math.nan
    x = held / held.mean(axis=1, keepdims=True) - 1.0
    squared = _cross_product(x)
    parts = np.array([_cross_product(np.delete(x, b, axis=0)) for b in range(len(x))])
    error = math.sqrt((len(x) - 1) / len(x) * float(((parts - parts.mean()) ** 2).sum()))
    tau = math.sqrt(max(0.0, squared))
    return tau, error / (2 * max(tau, math.sqrt(error), 1e-12))


def count_tau(counts: npt.NDArray[np.int64], top_k: int) -> tuple[float, float]:
    """τ of one layer and its standard error from int64 [E] counts of independent tokens.

    τ² = (CV² - (E-k)/(N·k)) / (1 - 1/N), sd(τ²) ≈ (E-k)/(E-1) · √(2(E-1) + 4λ)/(N·k) with
    λ = N·k·τ²·(E-1)/(E-k). NaN without load.
    """
    experts, total = counts.size, int(counts.sum())
    tokens = total / top_k
    if tokens < 2 or experts <= top_k:
        return math.nan, math.nan
    cv = float(counts.std() / counts.mean())
    squared = max(0.0, (cv**2 - (experts - top_k) / total) / (1 - 1 / tokens))
    noncentral = total * squared * (experts - 1) / (experts - top_k)
    error = (
        (experts - top_k) / (experts - 1) * math.sqrt(2 * (experts - 1) + 4 * noncentral) / total
    )
    tau = math.sqrt(squared)
    return tau, error / (2 * max(tau, math.sqrt(error)))


def _cross_product(x: Floats) -> float:
    buckets = len(x)
    return float(((x.sum(0) ** 2 - (x**2).sum(0)) / (buckets * (buckets - 1))).mean())
