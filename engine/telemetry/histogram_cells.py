"""Cells of a histogram with the Prometheus convention: a bound counts in its own cell (`le`)."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt


def cells_of(values: npt.ArrayLike, bounds: Sequence[float]) -> npt.NDArray[np.int64]:
    """Count `values` into len(bounds) + 1 cells, int64; the last holds what is above all bounds."""
    cells = np.searchsorted(np.asarray(bounds), np.asarray(values, dtype=np.float64), side="left")
    return np.bincount(cells.ravel(), minlength=len(bounds) + 1).astype(np.int64)
