"""The exact lower bound of a proportion (Clopper-Pearson), through the beta quantile."""

from scipy.special import betaincinv


def lower_bound(bad: int, total: int, confidence: float) -> float:
    """Smallest bad ratio that `bad` of `total` is consistent with; 0 without events."""
    if total <= 0 or bad <= 0:
        return 0.0
    return float(betaincinv(bad, total - bad + 1, 1.0 - confidence))
