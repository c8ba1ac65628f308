"""Counts over a threshold and quantiles from merged histograms; exact at the bounds."""

from collections.abc import Collection, Iterable, Sequence

import numpy as np
import numpy.typing as npt

from contract.frame import HISTOGRAM_BOUNDS
from controlplane.history.latency import quantile as located
from controlplane.history.window import EngineWindow

Cells = npt.NDArray[np.float64]


def merged(
    windows: Iterable[EngineWindow],
    name: str,
    *,
    bounds: Sequence[float] | None = None,
    generations: Sequence[int] | None = None,
) -> Cells:
    """Sum of a histogram over windows and generations (all by default): cells of its bounds.

    `bounds` are those that the frame names like the array, unless given.
    """
    cells: Cells = np.zeros(len(HISTOGRAM_BOUNDS[name] if bounds is None else bounds) + 1)
    for window in windows:
        if generations is None:
            told = window.every_generation(name)
            if told is not None:
                cells += told
            continue
        for generation, arrays in window.by_generation.items():
            if name in arrays and generation in generations:
                cells += arrays[name]
    return cells


def first_over(bounds: Sequence[float], threshold: float) -> int:
    """Index of the first cell above `threshold`, which must be one of the bounds.

    Raises:
        ValueError: the threshold is not a bound.
    """
    if threshold not in bounds:
        raise ValueError(f"threshold {threshold:g} is not a histogram bound; bounds are {bounds}")
    return list(bounds).index(threshold) + 1


def count_over(cells: Cells, bounds: Sequence[float], threshold: float) -> int:
    """Events above `threshold`, which must be one of the bounds: then the count is exact.

    Raises:
        ValueError: the threshold is not a bound.
    """
    return int(cells[first_over(bounds, threshold) :].sum())


def quantile(
    cells: Cells, bounds: Sequence[float], q: float, *, exact: Collection[float] | None = None
) -> float | None:
    """Quantile by linear interpolation inside its cell, for display; None without events.

    What lies above the last bound (of `exact`, where given) is reported as that bound; whether it
    does, `history.latency.quantile` says, which this is the value of.
    """
    found = located(cells, bounds, q, exact=exact)
    return None if found is None else found.at_least
