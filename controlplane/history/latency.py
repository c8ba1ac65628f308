"""Quantiles and shares from histogram cells: one a bound (`contract.histograms`), one above."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Cells = npt.NDArray[np.uint64]
AnyCells = npt.NDArray[np.uint64] | npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Quantile:
    """A quantile of a histogram.

    Attributes:
        value: estimate, linear inside its cell; None where it lies above the last bound that is
            known: then it is more than `low`, and nobody knows by how much.
        low, high: bounds of the cell that holds it; `high` is None above the last bound.
        n: observations.
    """

    value: float | None
    low: float
    high: float | None
    n: int

    @property
    def at_least(self) -> float:
        """The value, or the bound that it lies above."""
        return self.low if self.value is None else self.value


def quantile(
    cells: AnyCells, bounds: Sequence[float], q: float, *, exact: Collection[float] | None = None
) -> Quantile | None:
    """The q-quantile, q in [0, 1]; None without observations.

    `exact` names the bounds at which the counts are exact, all of them by default: above the last
    of them another engine's histogram is open, whatever bounds of ours follow.
    """
    n = int(cells.sum())
    if n == 0:
        return None
    below = np.cumsum(cells.astype(np.float64))
    rank = q * n
    index = int(np.searchsorted(below, rank, side="left"))
    index = min(index, len(cells) - 1)
    while index < len(cells) - 1 and cells[index] == 0:
        index += 1
    low = bounds[index - 1] if index > 0 else 0.0
    known = bounds if exact is None else exact
    known_low = max((bound for bound in known if bound <= low), default=0.0)
    if index >= len(bounds):
        return Quantile(None, known_low, None, n)
    high = bounds[index]
    known_high = min((bound for bound in known if bound >= high), default=None)
    if known_high is None:
        return Quantile(None, known_low, None, n)
    before = float(below[index - 1]) if index > 0 else 0.0
    inside = (rank - before) / max(float(cells[index]), 1.0)
    value = low + (high - low) * min(max(inside, 0.0), 1.0)
    return Quantile(value, known_low, known_high, n)


def quantile_values(cells: Cells, bounds: Sequence[float], q: float) -> npt.NDArray[np.float64]:
    """`quantile` of each row of [rows, cells] at once, q in (0, 1]; NaN for none.

    What lies above the last bound is the last bound: that or more.
    """
    n = cells.sum(axis=1)
    below = np.cumsum(cells.astype(np.float64), axis=1)
    rank = q * n
    index = np.minimum((below < rank[:, None]).sum(axis=1), cells.shape[1] - 1)
    rows = np.arange(len(cells))
    lows = np.array([0.0, *bounds])[index]
    highs = np.array([*bounds, bounds[-1]])[index]
    inside = cells[rows, index]
    before = below[rows, index] - inside
    part = np.clip((rank - before) / np.maximum(inside, 1), 0.0, 1.0)
    return np.where(n > 0, lows + (highs - lows) * part, np.nan)


@dataclass(frozen=True, slots=True)
class FractionUnder:
    """The share of observations at or under a threshold.

    Attributes:
        low, high: the share lies between them; equal (exact) when the threshold is a bound.
        estimate: the share itself when exact, else interpolated between them.
        n: observations.
    """

    low: float
    high: float
    estimate: float
    n: int

    @property
    def exact(self) -> bool:
        """Whether the threshold is a bound, so that the share is known exactly."""
        return self.low == self.high


def fraction_under(
    cells: Cells,
    bounds: Sequence[float],
    threshold: float,
    *,
    exact: Collection[float] | None = None,
) -> FractionUnder | None:
    """Share of observations at or under `threshold` (≥ 0, finite); None without observations.

    `exact` names the bounds at which the counts are exact, all of them by default: counts that
    were read from another engine's buckets are interpolated elsewhere.
    """
    n = int(cells.sum())
    if n == 0:
        return None
    below = np.concatenate([[0], np.cumsum(cells, dtype=np.uint64)])[: len(bounds) + 1]
    known = [(0.0, 0)] + [
        (bound, int(count)) for bound, count in zip(bounds, below[1:], strict=True)
        if exact is None or bound in exact
    ]  # fmt: skip
    low = max(count for bound, count in known if bound <= threshold)
    high = min((count for bound, count in known if bound >= threshold), default=n)
    between = float(np.interp(threshold, [0.0, *bounds], below.astype(np.float64)))
    estimate = min(max(between, low), high)
    return FractionUnder(low / n, high / n, estimate / n, n)
