"""Quantiles and shares from histogram cells: one a bound (`contract.histograms`), one above."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Cells = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Quantile:
    """A quantile of a histogram.

    Attributes:
        value: estimate, linear inside its cell; the last bound when it lies above it.
        low, high: bounds of the cell that holds it; `high` is None above the last bound.
        n: observations.
    """

    value: float
    low: float
    high: float | None
    n: int


def quantile(cells: Cells, bounds: Sequence[float], q: float) -> Quantile | None:
    """The q-quantile, q in [0, 1]; None without observations."""
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
    if index >= len(bounds):
        return Quantile(bounds[-1], bounds[-1], None, n)
    before = below[index - 1] if index > 0 else 0.0
    inside = (rank - before) / max(float(cells[index]), 1.0)
    high = bounds[index]
    return Quantile(low + (high - low) * min(max(inside, 0.0), 1.0), low, high, n)


def quantile_values(cells: Cells, bounds: Sequence[float], q: float) -> npt.NDArray[np.float64]:
    """The value of `quantile` for each row of [rows, cells] at once, q in (0, 1]; NaN for none."""
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
        n: observations.
    """

    low: float
    high: float
    n: int

    @property
    def exact(self) -> bool:
        """Whether the threshold is a bound, so that the share is known exactly."""
        return self.low == self.high


def fraction_under(cells: Cells, bounds: Sequence[float], threshold: float) -> FractionUnder | None:
    """Share of observations at or under `threshold`; None without observations."""
    n = int(cells.sum())
    if n == 0:
        return None
    sure = sum(1 for bound in bounds if bound <= threshold)
    low = int(cells[:sure].sum()) / n
    is_bound = sure > 0 and bounds[sure - 1] == threshold
    high = low if is_bound else int(cells[: sure + 1].sum()) / n
    return FractionUnder(low, high, n)
