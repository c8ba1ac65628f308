"""A bounded buffer of frames: when full the oldest goes, and is counted."""

import threading
from collections import deque

from engine.telemetry.otlp_logs import PackedFrame


class FrameBuffer:
    """Thread-safe. `put` never waits; `take` gives a batch that stays until `done` or `put_back`.

    Args:
        frames: most frames kept.
        byte_limit: most bytes kept.
    """

    def __init__(self, frames: int, byte_limit: int = 256 * 1024 * 1024) -> None:
        self._limit = frames
        self._byte_limit = byte_limit
        self._waiting: deque[PackedFrame] = deque()
        self._bytes = 0
        self._dropped = 0
        self._lock = threading.Lock()
        self._arrived = threading.Event()

    @property
    def dropped(self) -> int:
        """Frames lost so far."""
        return self._dropped

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, frame: PackedFrame) -> None:
        """Append; drops the oldest while over a bound."""
        with self._lock:
            self._waiting.append(frame)
            self._bytes += len(frame.body)
            self._shrink()
            self._arrived.set()

    def take(self, most: int, most_bytes: int) -> list[PackedFrame]:
        """Remove up to `most` of the oldest, at least one when there is any."""
        batch: list[PackedFrame] = []
        size = 0
        with self._lock:
            while self._waiting and len(batch) < most:
                size += len(self._waiting[0].body)
                if batch and size > most_bytes:
                    break
                batch.append(self._waiting.popleft())
            self._bytes -= sum(len(frame.body) for frame in batch)
            if not self._waiting:
                self._arrived.clear()
        return batch

    def put_back(self, batch: list[PackedFrame]) -> None:
        """Return an unsent batch to the front; bounds hold, the oldest goes first."""
        with self._lock:
            self._waiting.extendleft(reversed(batch))
            self._bytes += sum(len(frame.body) for frame in batch)
            self._shrink()
            self._arrived.set()

    def count_dropped(self, frames: int) -> None:
        """Frames that were refused for good."""
        with self._lock:
            self._dropped += frames

    def wait(self, seconds: float) -> bool:
        """Wait until there is a frame, or the time is up."""
        return self._arrived.wait(seconds)

    def wake(self) -> None:
        """End a `wait` that is in progress."""
        self._arrived.set()

    def _shrink(self) -> None:
        while len(self._waiting) > self._limit or (
            self._bytes > self._byte_limit and len(self._waiting) > 1
        ):
            self._bytes -= len(self._waiting.popleft().body)
            self._dropped += 1
