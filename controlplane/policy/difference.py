"""Is it better or worse: differences of bad ratios and of overflow, with one-sided bounds.

Ratios: Newcombe's hybrid of Wilson intervals. Slices of overflow: Welch's t. With concurrent
control engines the change of the control is taken off (difference in differences).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri, stdtrit

from controlplane.policy.measurement import Latency


@dataclass(frozen=True, slots=True)
class Difference:
    """After − before with its one-sided bounds; negative is better."""

    value: float
    low: float
    high: float


def wilson(bad: int, total: int, z: float) -> tuple[float, float]:
    """Wilson's bounds of a ratio; (0, 1) without events."""
    if total == 0:
        return 0.0, 1.0
    ratio = bad / total
    centre = ratio + z * z / (2 * total)
    half = z * math.sqrt(ratio * (1 - ratio) / total + z * z / (4 * total * total))
    scale = 1 + z * z / total
    return max(0.0, (centre - half) / scale), min(1.0, (centre + half) / scale)


def ratio_difference(
    before: Latency,
    after: Latency,
    confidence: float,
    control: tuple[Latency, Latency] | None = None,
) -> Difference:
    """Bad ratio after − before, less the control's own change."""
    z = float(ndtri(confidence))
    own = _newcombe(before, after, z)
    if control is None or not (control[0].total and control[1].total):
        return own
    other = _newcombe(control[0], control[1], z)
    value = own.value - other.value
    down = math.hypot(own.value - own.low, other.high - other.value)
    up = math.hypot(own.high - own.value, other.value - other.low)
    return Difference(value=value, low=value - down, high=value + up)


def slice_difference(
    before: Sequence[float], after: Sequence[float], confidence: float
) -> Difference | None:
    """Mean of slices after − before; None with fewer than three slices on a side."""
    if len(before) < 3 or len(after) < 3:
        return None
    value = float(np.mean(after) - np.mean(before))
    parts = [float(np.var(side, ddof=1)) / len(side) for side in (before, after)]
    total = sum(parts)
    if total <= 0:
        return Difference(value=value, low=value, high=value)
    freedom = total**2 / sum(
        part**2 / (len(side) - 1) for part, side in zip(parts, (before, after), strict=True)
    )
    margin = float(stdtrit(freedom, confidence)) * math.sqrt(total)
    return Difference(value=value, low=value - margin, high=value + margin)


def is_faster(before: Sequence[int], after: Sequence[int], confidence: float) -> bool:
    """Mann-Whitney on two histograms with the same cells, ties counted: is `after` lower?

    Tells a threshold that everything exceeds on both sides from a change that did nothing.
    """
    old, new = np.asarray(before, np.float64), np.asarray(after, np.float64)
    n, m = float(old.sum()), float(new.sum())
    if old.shape != new.shape or min(n, m) == 0:
        return False
    above = n - np.cumsum(old)
    share = float(new @ (above + old / 2)) / (n * m)
    total, ties = n + m, old + new
    tied = float((ties**3 - ties).sum()) / (total**3 - total)
    spread = math.sqrt(max(0.0, (total + 1) / (12 * n * m) * (1 - tied)))
    return share - 0.5 > float(ndtri(confidence)) * spread


def mean_low(slices: Sequence[float], confidence: float) -> float | None:
    """Student's lower bound of the mean of slices; None with fewer than three."""
    if len(slices) < 3:
        return None
    error = float(np.std(slices, ddof=1)) / math.sqrt(len(slices))
    return float(np.mean(slices)) - float(stdtrit(len(slices) - 1, confidence)) * error


def _newcombe(before: Latency, after: Latency, z: float) -> Difference:
    low_before, high_before = wilson(before.bad, before.total, z)
    low_after, high_after = wilson(after.bad, after.total, z)
    value = after.bad_ratio - before.bad_ratio
    down = math.hypot(after.bad_ratio - low_after, high_before - before.bad_ratio)
    up = math.hypot(high_after - after.bad_ratio, before.bad_ratio - low_before)
    return Difference(value=value, low=value - down, high=value + up)
