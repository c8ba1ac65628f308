"""Counts of stored intervals: what the long burn tiers and the error budget look back on. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from contract.frame import HISTOGRAM_BOUNDS
from controlplane.history.window import EngineWindow
from controlplane.slo.histogram import Cells

ARRAYS = ("ttft", "tpot", "overflow", "assignments")
"""What `counts_of` reads of a window."""
LATENCIES = ARRAYS[:2]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class OlderCounts:
    """Counts of N intervals of one engine; their lengths may differ.

    Attributes:
        starts, ends: [N], unix seconds, rising.
        latencies: histogram name → [N, cells], requests.
        overflow, assignments: [N], over all layers.
    """

    starts: Floats
    ends: Floats
    latencies: Mapping[str, Cells]
    overflow: Floats
    assignments: Floats

    def part(self, first: int, last: int) -> "OlderCounts":
        """The intervals from index `first` up to `last`."""
        return OlderCounts(
            self.starts[first:last], self.ends[first:last],
            {name: cells[first:last] for name, cells in self.latencies.items()},
            self.overflow[first:last], self.assignments[first:last],
        )  # fmt: skip

    def before(self, at: float) -> "OlderCounts":
        """The intervals that end by `at`."""
        return self.part(0, int(np.searchsorted(self.ends, at + 1e-6, side="right")))

    def since(self, at: float) -> "OlderCounts":
        """The intervals that start at `at` or later."""
        return self.part(int(np.searchsorted(self.starts, at - 1e-6)), len(self.starts))

    def then(self, newer: "OlderCounts") -> "OlderCounts":
        """Both, one after the other."""
        return OlderCounts(
            np.concatenate([self.starts, newer.starts]), np.concatenate([self.ends, newer.ends]),
            {
                name: np.concatenate([cells, newer.latencies[name]])
                for name, cells in self.latencies.items()
            },
            np.concatenate([self.overflow, newer.overflow]),
            np.concatenate([self.assignments, newer.assignments]),
        )  # fmt: skip


def counts_of(windows: Sequence[EngineWindow]) -> OlderCounts:
    """The counts of windows, oldest first."""
    latencies = {
        name: np.zeros((len(windows), len(HISTOGRAM_BOUNDS[name]) + 1)) for name in LATENCIES
    }
    overflow, assignments = np.zeros(len(windows)), np.zeros(len(windows))
    for row, window in enumerate(windows):
        for name, cells in latencies.items():
            told = window.every_generation(name)
            if told is not None:
                cells[row] = told
        over, assigned = window.arrays.get("overflow"), window.assigned
        if over is not None and assigned is not None:
            overflow[row], assignments[row] = over.sum(), assigned.sum()
    return OlderCounts(
        np.array([window.start for window in windows]),
        np.array([window.end for window in windows]), latencies, overflow, assignments,
    )  # fmt: skip


NOTHING = counts_of([])
