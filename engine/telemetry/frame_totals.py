"""Running totals of a boot's frames: what counters and histograms on /metrics show."""

from collections import Counter

import numpy as np
import numpy.typing as npt

from contract.frame import PHASES
from contract.frame_codec import Frame

Totals = npt.NDArray[np.int64]

_PLAIN = (
    "overflow", "rerouted", "spilled", "dropped", "executed", "tokens_all_dropped", "a2a_phase",
    "a2a_rank_wait_us", "a2a_bytes", "a2a_message", "request_time",
)  # fmt: skip
_SUMMED = {
    "assignments": (0, 2), "overflow_at_rung": (1,), "card_assignments": (0,),
    "ttft": (0,), "tpot": (0,), "queue_time": (0,), "inter_token": (0,), "step_time": (0,),
}  # fmt: skip
"""Arrays that are kept without these axes."""


class FrameTotals:
    """Totals by array name; arrays that no frame had are absent.

    Attributes:
        arrays: int64; `assignments` [L], `overflow_at_rung` [R], `card_assignments` [M],
            by-generation histograms without their G axis, the others as in the frame.
        sums: of `FrameHeader.histogram_sums`.
        tokens: by phase; requests: by outcome.
    """

    def __init__(self) -> None:
        self.arrays: dict[str, Totals] = {}
        self.sums: dict[str, float] = {}
        self.tokens: Counter[str] = Counter()
        self.requests: Counter[str] = Counter()

    def add(self, frame: Frame) -> None:
        """Add one frame's deltas."""
        arrays = frame.arrays
        for name in _PLAIN:
            if name in arrays:
                self._add(name, arrays[name].astype(np.int64))
        for name, axes in _SUMMED.items():
            if name in arrays:
                self._add(name, arrays[name].sum(axis=axes, dtype=np.int64))
        for key, value in frame.header.histogram_sums.items():
            self.sums[key] = self.sums.get(key, 0.0) + value
        for phase, tokens in zip(PHASES, frame.header.tokens, strict=True):
            self.tokens[phase] += tokens
        self.requests.update(frame.header.requests.model_dump(exclude={"tpot_measured"}))

    def _add(self, name: str, values: Totals) -> None:
        if name in self.arrays:
            self.arrays[name] += values
        else:
            self.arrays[name] = values
