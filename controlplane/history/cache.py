"""Frames that came lately, as they came, the oldest dropped first, bounded in bytes.

They are held packed: unpacked, a frame takes five times as much, and few frames are looked at.
"""

import threading
from collections import OrderedDict
from typing import NamedTuple

from contract.frame import FrameHeader
from controlplane.history.ring import ReceivedFrame

HEADER_BYTES = 4096


class FrameKey(NamedTuple):
    """What a frame is known by."""

    engine_id: str
    boot_id: str
    sequence: int


class FrameCache:
    """Frames by key. Safe to use from any thread."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._frames: OrderedDict[FrameKey, ReceivedFrame] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def put(self, received: ReceivedFrame) -> None:
        """Hold a frame, if the bound allows it at all."""
        size = _size_of(received)
        if size > self._max_bytes:
            return
        key = key_of(received.header)
        with self._lock:
            if key in self._frames:
                return
            self._frames[key] = received
            self._bytes += size
            while self._bytes > self._max_bytes:
                _, dropped = self._frames.popitem(last=False)
                self._bytes -= _size_of(dropped)

    def get(self, key: FrameKey) -> ReceivedFrame | None:
        """A held frame, or None."""
        with self._lock:
            return self._frames.get(key)

    @property
    def held_bytes(self) -> int:
        """Bytes held now."""
        return self._bytes


def key_of(header: FrameHeader) -> FrameKey:
    """The key of a frame."""
    return FrameKey(header.engine_id, header.boot_id, header.sequence)


def _size_of(received: ReceivedFrame) -> int:
    return HEADER_BYTES + len(received.data)
