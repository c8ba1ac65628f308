"""The windows that an evaluation looks at: aligned, and summed once.

A window is [i·s, (i+1)·s) on the engine's own frame times. It is complete when a frame has ended at
or after its end; a complete window with full coverage never changes again and is kept. One that
lacks frames is looked at again, ever more rarely: late frames come soon or not at all.
"""

import math
import threading
from collections import OrderedDict
from typing import NamedTuple

from controlplane.history.history import History
from controlplane.history.window import EngineWindow

MAX_KEPT = 4096


class _Kept(NamedTuple):
    """A window, and the frame time at which it is to be summed anew."""

    window: EngineWindow | None
    look_again: float


class AlignedWindows:
    """Windows of all engines over one history. Safe to use from any thread."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, float, int], _Kept] = OrderedDict()

    def last(
        self, engine_id: str, *, ended: float, seconds: float, count: int
    ) -> list[EngineWindow]:
        """The last `count` complete windows of `seconds`, oldest first; empty ones are left out.

        `ended` is the end of the engine's newest frame, unix seconds.
        """
        newest = math.floor(ended / seconds + 1e-6)
        indices = range(max(0, newest - count), newest)
        found = (self._window(engine_id, index, seconds, ended) for index in indices)
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

    def _window(
        self, engine_id: str, index: int, seconds: float, ended: float
    ) -> EngineWindow | None:
        key = (engine_id, seconds, index)
        with self._lock:
            kept = self._kept.get(key)
            if kept is not None and ended < kept.look_again:
                self._kept.move_to_end(key)
                return kept.window
        end = (index + 1) * seconds
        window = self._history.window(engine_id, index * seconds, end)
        whole = window is not None and window.covered_seconds >= 0.98 * seconds
        look_again = math.inf if whole else ended + max(seconds, (ended - end) / 4)
        with self._lock:
            self._kept[key] = _Kept(window, look_again)
            while len(self._kept) > MAX_KEPT:
                self._kept.popitem(last=False)
        return window
