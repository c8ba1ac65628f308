"""The windows that an evaluation looks at: aligned, and summed once.

A window is [i·s, (i+1)·s) on the engine's own frame times. It is complete when a frame has ended at
or after its end; a complete window with full coverage never changes again and is kept. One that
lacks frames is looked at again, ever more rarely: late frames come soon or not at all.

Detectors look at the newest windows only; older ones serve the SLOs. Those are kept thin, without
anything per expert: a full window of 58 × 256 experts is megabytes, a thin one kilobytes. What is
kept whole is kept narrow: counts of ten seconds rarely need the 64 bits that sums are made in.
"""

import dataclasses
import math
import threading
from collections import OrderedDict
from typing import NamedTuple

import numpy as np
from sqlalchemy import func, select

from controlplane.history.history import History
from controlplane.history.models import EngineBoot
from controlplane.history.window import EngineWindow

MAX_KEPT = 16_384
NARROW_FROM = 4096
"""Cells from which an array is worth narrowing."""
DETECTORS_ONLY = ("bucket_", "whatif_", "a2a_", "card_", "tokens_all_dropped", "required_max")
"""Prefixes of arrays that a thin window is without."""


class _Kept(NamedTuple):
    """A window, and the frame time at which it is to be summed anew."""

    window: EngineWindow | None
    look_again: float
    is_thin: bool


class AlignedWindows:
    """Windows of all engines over one history. Safe to use from any thread."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, float, int], _Kept] = OrderedDict()
        self._first: dict[str, float] = {}

    def last(
        self, engine_id: str, *, ended: float, seconds: float, count: int, full: int
    ) -> list[EngineWindow]:
        """The last `count` complete windows of `seconds`, oldest first; empty ones are left out.

        `ended` is the end of the engine's newest frame, unix seconds; all but the newest `full`
        windows are thin.
        """
        newest = math.floor(ended / seconds + 1e-6)
        oldest = math.floor(self._first_frame(engine_id) / seconds)
        found = (
            self._window(engine_id, index, seconds, ended, thin=newest - index > full)
            for index in range(max(oldest, newest - count), newest)
        )
        return [window for window in found if window is not None]

    def between(
        self, engine_id: str, start: float, end: float, seconds: float
    ) -> list[EngineWindow]:
        """Windows of `seconds` from `start` on, as many as have ended by `end`; not kept."""
        count = max(0, math.floor((end - start) / seconds + 1e-6))
        found = (
            self._history.window(engine_id, start + i * seconds, start + (i + 1) * seconds)
            for i in range(count)
        )
        return [window for window in found if window is not None]

    def _first_frame(self, engine_id: str) -> float:
        """Start of the first frame that the engine ever sent: before it every window is empty."""
        known = self._first.get(engine_id)
        if known is not None:
            return known
        query = select(func.min(EngineBoot.first_started)).where(EngineBoot.engine_id == engine_id)
        with self._history.database.read() as session:
            first = session.scalar(query)
        if first is not None:
            self._first[engine_id] = first
        return first or 0.0

    def _window(
        self, engine_id: str, index: int, seconds: float, ended: float, *, thin: bool
    ) -> EngineWindow | None:
        key = (engine_id, seconds, index)
        with self._lock:
            kept = self._kept.get(key)
        if kept is None or ended >= kept.look_again or (kept.is_thin and not thin):
            kept = self._summed(engine_id, index, seconds, ended)
        if thin and not kept.is_thin:
            slim = None if kept.window is None else thinned(kept.window)
            kept = _Kept(slim, kept.look_again, is_thin=True)
        with self._lock:
            self._kept[key] = kept
            self._kept.move_to_end(key)
            while len(self._kept) > MAX_KEPT:
                self._kept.popitem(last=False)
        return kept.window

    def _summed(self, engine_id: str, index: int, seconds: float, ended: float) -> _Kept:
        end = (index + 1) * seconds
        window = self._history.window(engine_id, index * seconds, end)
        kept = None if window is None else narrowed(window)
        if window is not None and window.covered_seconds >= 0.98 * seconds:
            return _Kept(kept, math.inf, is_thin=False)
        return _Kept(kept, ended + max(seconds, (ended - end) / 4), is_thin=False)


def narrowed(window: EngineWindow) -> EngineWindow:
    """The same counts, large arrays in as few bits as hold them; sums of numpy widen again."""
    arrays = {
        name: array if array.size < NARROW_FROM else array.astype(np.min_scalar_type(array.max()))
        for name, array in window.arrays.items()
    }
    return dataclasses.replace(window, arrays=arrays)


def thinned(window: EngineWindow) -> EngineWindow:
    """The window for SLOs alone: assignments summed over experts [P, L, 1], the rest left out."""
    arrays = {
        name: array for name, array in window.arrays.items()
        if not name.startswith(DETECTORS_ONLY)
    }  # fmt: skip
    if "assignments" in arrays:
        arrays["assignments"] = arrays["assignments"].sum(axis=2, keepdims=True)
    return dataclasses.replace(window, arrays=arrays)
