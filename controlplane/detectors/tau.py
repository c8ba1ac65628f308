"""τ: the persistent skew of a router, from the covariance between request-hash buckets.

Tokens of one sequence route alike, so the variance of counts holds a term τ_seq²/S that no token
correction removes. Two buckets share no sequence: the mean product of their relative deviations is
free of it. With x_be = n_be/μ_b − 1 over B buckets,

    τ² = mean_e [((Σ_b x_be)² − Σ_b x_be²) / (B (B−1))]

unbiased whatever happens inside a bucket. The standard error is the delete-one-bucket jackknife;
B − 1 degrees of freedom, hence Student's t. All of it follows from the B × B Gram matrix of each
layer, so one batched matrix product does the work. Formula: reference, governance § 8.3.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.uint64] | Floats


@dataclass(frozen=True, slots=True)
class TauEstimate:
    """τ² per layer: value and standard error, float64 [L]; `buckets` gives the degrees of freedom.

    `value` may be negative: an unbiased estimate of a square near zero is.
    """

    value: Floats
    standard_error: Floats
    buckets: int

    def low(self, alpha: float) -> Floats:
        """One-sided lower bound of τ² [L] at error `alpha`."""
        return self.value - self._quantile(alpha) * self.standard_error

    def high(self, alpha: float) -> Floats:
        """One-sided upper bound of τ² [L] at error `alpha`."""
        return self.value + self._quantile(alpha) * self.standard_error

    def _quantile(self, alpha: float) -> float:
        return float(stdtrit(self.buckets - 1, 1.0 - alpha))


def usable_buckets(counts: Counts, top_k: int, min_bucket_tokens: int) -> npt.NDArray[np.bool_]:
    """Which buckets of [B, L, E] hold enough tokens in every layer, bool [B]."""
    tokens = counts.sum(axis=2, dtype=np.float64) / top_k
    usable: npt.NDArray[np.bool_] = tokens.min(axis=1) >= min_bucket_tokens
    return usable


def deviation_gram(counts: Counts) -> Floats:
    """Σ_e x_be·x_b'e / E for each layer, float64 [L, B, B], from counts [B, L, E].

    Every bucket needs a count in every layer. The product is done in FP32: its relative error
    (1e-6) is far below any standard error.
    """
    by_layer = np.ascontiguousarray(np.swapaxes(counts, 0, 1), dtype=np.float32)
    experts = by_layer.shape[2]
    mean = by_layer.sum(axis=2, dtype=np.float64) / experts
    gram = (by_layer @ np.swapaxes(by_layer, 1, 2)).astype(np.float64)
    scaled: Floats = gram / (mean[:, :, None] * mean[:, None, :] * experts) - 1.0
    return scaled


def tau_from_gram(gram: Floats) -> TauEstimate:
    """Mean of the off-diagonal entries of [L, B, B] with its jackknife error (B ≥ 3)."""
    buckets = gram.shape[1]
    diagonal = np.einsum("lbb->lb", gram)
    off_diagonal = gram.sum(axis=(1, 2)) - diagonal.sum(axis=1)
    value = off_diagonal / (buckets * (buckets - 1))
    touching = 2.0 * (gram.sum(axis=2) - diagonal)
    left_out = (off_diagonal[:, None] - touching) / ((buckets - 1) * (buckets - 2))
    spread = left_out - left_out.mean(axis=1, keepdims=True)
    error = np.sqrt((buckets - 1) / buckets * (spread**2).sum(axis=1))
    return TauEstimate(value=value, standard_error=error, buckets=buckets)


def cross_bucket_tau(
    counts: Counts, *, top_k: int, min_buckets: int = 4, min_bucket_tokens: int = 8
) -> TauEstimate | None:
    """τ² of counts [B, L, E] by layer, or None when fewer than `min_buckets` hold tokens."""
    usable = usable_buckets(counts, top_k, min_bucket_tokens)
    if int(usable.sum()) < max(3, min_buckets):
        return None
    return tau_from_gram(deviation_gram(counts[usable]))


def root(square: float) -> float:
    """√ of an estimated square, 0 where the estimate is negative."""
    return float(np.sqrt(max(0.0, square)))
