"""Requests over a threshold, and all, by window: summed once, asked for over any last seconds."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from contract.frame import HISTOGRAM_BOUNDS
from controlplane.history.window import EngineWindow
from controlplane.slo.histogram import Cells, first_over

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class LatencyCounts:
    """One latency histogram over windows.

    Attributes:
        middles: [W], unix seconds, rising: a window counts where its middle lies.
        running: [W + 1, cells], events before each window.
        over: index of the first cell above the threshold.
    """

    middles: Floats
    running: Cells
    over: int

    @classmethod
    def of(cls, windows: Sequence[EngineWindow], name: str, threshold: float) -> "LatencyCounts":
        """The histogram `name` (`ttft`, `tpot`); `threshold` must be one of its bounds, in seconds.

        Raises:
            ValueError: the threshold is not a bound.
        """
        bounds = HISTOGRAM_BOUNDS[name]
        over = first_over(bounds, threshold)
        running = np.zeros((len(windows) + 1, len(bounds) + 1))
        for row, window in enumerate(windows, start=1):
            told = window.every_generation(name)
            if told is not None:
                running[row] = told
        np.cumsum(running, axis=0, out=running)
        middles = np.array([(window.start + window.end) / 2.0 for window in windows])
        return cls(middles, running, over)

    def windows_in(self, seconds: float, at: float) -> tuple[int, int]:
        """First and last + 1 of the windows whose middle lies in the `seconds` before `at`."""
        first = int(np.searchsorted(self.middles, at - seconds, side="left"))
        return first, max(first, int(np.searchsorted(self.middles, at, side="right")))

    def cells_in(self, seconds: float, at: float) -> Cells:
        """The histogram over the `seconds` before `at`."""
        first, last = self.windows_in(seconds, at)
        cells: Cells = self.running[last] - self.running[first]
        return cells

    def count(self, seconds: float, at: float) -> tuple[int, int]:
        """Requests over the threshold and all, in the `seconds` before `at`."""
        cells = self.cells_in(seconds, at)
        return int(cells[self.over :].sum()), int(cells.sum())

    def all(self) -> tuple[int, int]:
        """Requests over the threshold and all, over every window."""
        cells = self.running[-1]
        return int(cells[self.over :].sum()), int(cells.sum())
