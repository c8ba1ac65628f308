"""Requests over a threshold, and all, by window: summed once, asked for over any last seconds."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from contract.frame import HISTOGRAM_BOUNDS
from controlplane.history.window import EngineWindow
from controlplane.slo.histogram import Cells, first_over
from controlplane.slo.older import NOTHING, OlderCounts

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class LatencyCounts:
    """One latency histogram over windows.

    Attributes:
        middles: [W], unix seconds, rising: a window counts where its middle lies.
        running: [W + 1, cells], events before each window, from any number on.
        over: index of the first cell above the threshold.
    """

    middles: Floats
    running: Cells
    over: int

    @classmethod
    def of(
        cls,
        windows: Sequence[EngineWindow],
        name: str,
        threshold: float,
        older: OlderCounts = NOTHING,
    ) -> "LatencyCounts":
        """The histogram `name` (`ttft`, `tpot`); `threshold` must be one of its bounds, in seconds.

        `older` are intervals before the windows.

        Raises:
            ValueError: the threshold is not a bound.
        """
        bounds = HISTOGRAM_BOUNDS[name]
        over = first_over(bounds, threshold)
        first = 1 + len(older.starts)
        running = np.zeros((first + len(windows), len(bounds) + 1))
        running[1:first] = older.latencies[name]
        for row, window in enumerate(windows, start=first):
            told = window.every_generation(name)
            if told is not None:
                running[row] = told
        np.cumsum(running, axis=0, out=running)
        middles = [(window.start + window.end) / 2.0 for window in windows]
        return cls(
            np.concatenate([(older.starts + older.ends) / 2.0, middles]), running, over
        )  # fmt: skip

    def after(self, first: int) -> "LatencyCounts":
        """The counts without the first so many windows."""
        return LatencyCounts(self.middles[first:], self.running[first:], self.over)

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
        cells = self.running[-1] - self.running[0]
        return int(cells[self.over :].sum()), int(cells.sum())
