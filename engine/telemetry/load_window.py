"""The window behind the load gauges: at least 60 s and 16,384 tokens, at most 10 minutes."""

from collections import deque
from dataclasses import dataclass

import numpy as np

from contract.frame import FrameHeader
from contract.frame_codec import Frame
from engine.telemetry.load_shape import Floats, Ints

WINDOW_SECONDS = 60.0
WINDOW_TOKENS = 16_384
WINDOW_MOST_SECONDS = 600.0
REFERENCE_HALF_LIFE_SECONDS = 1800.0


@dataclass(frozen=True, slots=True)
class _Interval:
    seconds: float
    tokens: int
    experts: Ints
    cards: Ints


class LoadWindow:
    """Sums of the newest frames, kept by adding the new and subtracting the old.

    Args:
        layers, experts, ranks: shape of the counts.

    Attributes:
        experts: int64 [L, E]; cards: int64 [L, M]; sums over the window.
        reference: float64 [L, E] of the time when the live bias was the last known good, forgotten
            with a half-life of 30 minutes; frozen while it is not. None before the first.
    """

    def __init__(self, layers: int, experts: int, ranks: int) -> None:
        self._intervals: deque[_Interval] = deque()
        self._seconds = 0.0
        self._tokens = 0
        self.experts: Ints = np.zeros((layers, experts), dtype=np.int64)
        self.cards: Ints = np.zeros((layers, ranks), dtype=np.int64)
        self.reference: Floats | None = None

    def add(self, frame: Frame) -> None:
        """Take one frame; frames without assignments do not age the window."""
        assignments = frame.arrays.get("assignments")
        if assignments is None or not assignments.any():
            return
        counts = assignments.sum(axis=0, dtype=np.int64)
        cards = frame.arrays.get("card_assignments")
        interval = _Interval(
            seconds=frame.header.interval_seconds,
            tokens=int(counts[0].sum()) // frame.header.top_k,
            experts=counts,
            cards=np.zeros_like(self.cards) if cards is None else cards.astype(np.int64),
        )
        self._intervals.append(interval)
        self._count(interval, 1)
        while self._has_more_than_needed():
            self._count(self._intervals.popleft(), -1)
        self._follow(frame.header, counts)

    def _count(self, interval: _Interval, sign: int) -> None:
        self._seconds += sign * interval.seconds
        self._tokens += sign * interval.tokens
        self.experts += sign * interval.experts
        self.cards += sign * interval.cards

    def _has_more_than_needed(self) -> bool:
        oldest = self._intervals[0]
        left = self._seconds - oldest.seconds
        enough = left >= WINDOW_SECONDS and self._tokens - oldest.tokens >= WINDOW_TOKENS
        return enough or (left >= WINDOW_MOST_SECONDS and len(self._intervals) > 1)

    def _follow(self, header: FrameHeader, counts: Ints) -> None:
        if header.live_bias != header.lkg_bias:
            return
        if self.reference is None:
            self.reference = np.zeros(counts.shape, dtype=np.float64)
        self.reference *= 0.5 ** (header.interval_seconds / REFERENCE_HALF_LIFE_SECONDS)
        self.reference += counts
