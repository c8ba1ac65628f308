"""What every detector is given, and the one signature that all of them have."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from controlplane.detectors.finding import Finding
from controlplane.detectors.reference import LoadReference, bucket_design_effect
from controlplane.detectors.settings import DetectorSettings
from controlplane.history.window import EngineWindow, Sums

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Observed:
    """One engine's windows, oldest first and at least one, and what they are held against.

    Attributes:
        windows: consecutive windows of about `settings.window_seconds`, oldest first.
        reference: load shares captured when the bias was marked good, or None.
        settings: the parameters.
        long_windows: coarse windows (minutes to an hour each) for the slow trend; may be empty.
    """

    windows: Sequence[EngineWindow]
    reference: LoadReference | None
    settings: DetectorSettings
    long_windows: Sequence[EngineWindow] = ()

    @property
    def newest(self) -> EngineWindow:
        """The last window."""
        return self.windows[-1]

    @property
    def recent(self) -> Sequence[EngineWindow]:
        """The windows that a level is judged on."""
        return self.windows[-self.settings.windows_seen :]

    @cached_property
    def design_effect(self) -> Floats:
        """φ by layer [L]: measured between the newest buckets, else the reference's, else 1."""
        measured = bucket_design_effect(self.recent, self.newest.header.top_k)
        if measured is not None:
            return measured
        if self.reference is not None:
            return self.reference.design_effect
        return np.ones(self.newest.header.layers)


Detect = Callable[[Observed], Finding]
"""A detector: pure, one finding, never raises on thin data but says so."""


def pooled(windows: Sequence[EngineWindow], name: str) -> Sums | None:
    """Sum of one array over windows, None where no window has it. Not to be written to."""
    found = [window.arrays[name] for window in windows if name in window.arrays]
    if not found:
        return None
    total = found[0]
    for array in found[1:]:
        total = np.add(total, array, dtype=np.uint64)
    return total


def expert_counts(window: EngineWindow) -> Floats | None:
    """Assignments of both phases before capacity, float64 [L, E]; None without the array."""
    return None if "assignments" not in window.arrays else counts_of(window)


def counts_of(window: EngineWindow) -> Floats:
    """The same of a window that has the array."""
    counts: Floats = window.arrays["assignments"].sum(axis=0).astype(np.float64)
    return counts
