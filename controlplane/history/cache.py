"""Decoded frames held in memory, the least recently used dropped first, bounded in bytes."""

import threading
from collections import OrderedDict
from typing import NamedTuple

from contract.frame_codec import Frame

_HEADER_BYTES = 4096


class FrameKey(NamedTuple):
    """What a frame is known by."""

    engine_id: str
    boot_id: str
    sequence: int


class FrameCache:
    """Frames by key. Safe to use from any thread; frames are never changed after decoding."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._frames: OrderedDict[FrameKey, tuple[Frame, int]] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def put(self, frame: Frame) -> None:
        """Hold a frame, if the bound allows it at all."""
        size = size_of(frame)
        if size > self._max_bytes:
            return
        key = key_of(frame)
        with self._lock:
            if key in self._frames:
                return
            self._frames[key] = (frame, size)
            self._bytes += size
            while self._bytes > self._max_bytes:
                _, (_, dropped) = self._frames.popitem(last=False)
                self._bytes -= dropped

    def get(self, key: FrameKey) -> Frame | None:
        """A held frame, or None."""
        with self._lock:
            held = self._frames.get(key)
            if held is None:
                return None
            self._frames.move_to_end(key)
            return held[0]

    @property
    def held_bytes(self) -> int:
        """Bytes held now."""
        return self._bytes


def key_of(frame: Frame) -> FrameKey:
    """The key of a frame."""
    return FrameKey(frame.header.engine_id, frame.header.boot_id, frame.header.sequence)


def size_of(frame: Frame) -> int:
    """Bytes that a decoded frame takes, about."""
    return _HEADER_BYTES + sum(values.nbytes for values in frame.arrays.values())
