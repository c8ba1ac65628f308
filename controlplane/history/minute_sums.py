"""The sums of one engine's minute: six of 10 s, the whole, and its layer rows."""

import logging
from bisect import bisect_left
from collections.abc import Iterable

from sqlalchemy.orm import Session

from contract.frame_stack import Stack
from controlplane.history.chunk_codec import CorruptChunkError
from controlplane.history.rollup_rows import (
    frames_held,
    payload_held,
    store_summaries,
    store_windows,
)
from controlplane.history.summing import WindowSum
from controlplane.history.tiers import MINUTE, SLICE
from controlplane.history.window import EngineWindow
from controlplane.history.window_codec import decode_window

logger = logging.getLogger(__name__)


class MinuteSums:
    """Running sums of a minute that starts at `t0`; parts are added one at a time. No I/O."""

    def __init__(self, engine_id: str, t0: int) -> None:
        self._engine_id = engine_id
        self._t0 = t0
        self._slices = {start: WindowSum() for start in range(t0, t0 + MINUTE, SLICE)}

    def add(self, part: Stack) -> int:
        """Add frames, oldest first; gives how many there are."""
        began = [header.started_unix_seconds for header in part.headers]
        for start, total in self._slices.items():
            total.add_stack(part, bisect_left(began, start), bisect_left(began, start + SLICE))
        return len(began)

    def windows(self) -> tuple[EngineWindow | None, list[EngineWindow]]:
        """The sum of the minute, and of its 10 s that have frames."""
        slices: list[EngineWindow] = []
        minute = WindowSum()
        for start, total in self._slices.items():
            window = total.window(self._engine_id, start, start + SLICE)
            if window is not None:
                slices.append(window)
                minute.merge(window)
        return minute.window(self._engine_id, self._t0, self._t0 + MINUTE), slices


def store_rollups(
    session: Session, engine_id: str, t0: int, earlier: Iterable[Stack], sealed: Stack
) -> None:
    """Write the six 10 s sums, the minute's sum, and its layer rows.

    They are summed of all parts. Where earlier parts are gone, or damaged, but what was summed of
    them is there, the sealed frames are added to that.
    """
    held = frames_held(session, engine_id, MINUTE, t0) or 0
    sums = MinuteSums(engine_id, t0)
    lacks_earlier = sum(map(sums.add, earlier)) < held
    if lacks_earlier:
        sums = MinuteSums(engine_id, t0)
    sums.add(sealed)
    minute, slices = sums.windows()
    if minute is None:
        return
    if lacks_earlier:
        minute = _added(session, minute, MINUTE)
        slices = [_added(session, window, SLICE) for window in slices]
    store_windows(session, slices, SLICE)
    store_windows(session, [minute], MINUTE)
    store_summaries(session, minute, MINUTE)


def _added(session: Session, window: EngineWindow, tier: int) -> EngineWindow:
    """A window with what is stored of its interval."""
    payload = payload_held(session, window.engine_id, tier, int(window.start))
    if payload is None:
        return window
    total = WindowSum()
    try:
        total.merge(decode_window(payload))
    except CorruptChunkError:
        logger.exception("rollup %s/%s/%s is left out", window.engine_id, tier, window.start)
    total.merge(window)
    return total.window(window.engine_id, window.start, window.end) or window
