"""The standard normal distribution on arrays, in numpy alone.

cdf by Abramowitz and Stegun 7.1.26 (error below 1.5e-7), quantile by Acklam's rational
approximation (relative error below 1.2e-9).
"""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_ERF = (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)
_A = (-3.969683028665376e1, 2.209460984245205e2, -2.759285104469687e2, 1.383577518672690e2,
      -3.066479806614716e1, 2.506628277459239)  # fmt: skip
_B = (-5.447609879822406e1, 1.615858368580409e2, -1.556989798598866e2, 6.680131188771972e1,
      -1.328068155288572e1, 1.0)  # fmt: skip
_C = (-7.784894002430293e-3, -3.223964580411365e-1, -2.400758277161838, -2.549732539343734,
      4.374664141464968, 2.938163982698783)  # fmt: skip
_D = (7.784695709041462e-3, 3.224671290700398e-1, 2.445134137142996, 3.754408661907416, 1.0)
_TAIL = 0.02425


def pdf(x: Floats) -> Floats:
    """Density."""
    density: Floats = np.exp(-0.5 * x * x) / np.sqrt(2.0 * np.pi)
    return density


def cdf(x: Floats) -> Floats:
    """P(Z ≤ x)."""
    y = np.abs(x) / np.sqrt(2.0)
    t = 1.0 / (1.0 + 0.3275911 * y)
    tail = 0.5 * np.polyval(_ERF[::-1], t) * t * np.exp(-y * y)
    below: Floats = np.where(x >= 0, 1.0 - tail, tail)
    return below


def quantile(p: Floats) -> Floats:
    """The x with P(Z ≤ x) = p; p strictly between 0 and 1."""
    low = np.minimum(p, 1.0 - p)
    q = np.sqrt(-2.0 * np.log(low))
    outer = -np.polyval(_C, q) / np.polyval(_D, q)
    r = p - 0.5
    inner = r * np.polyval(_A, r * r) / np.polyval(_B, r * r)
    return np.where(low < _TAIL, np.where(p < 0.5, -outer, outer), inner)


def excess(mean: Floats, deviation: Floats, bound: float) -> Floats:
    """E[max(0, X - bound)] of a normal X with this mean and deviation (> 0)."""
    z = (bound - mean) / deviation
    over: Floats = deviation * (pdf(z) - z * cdf(-z))
    return np.maximum(0.0, over)
