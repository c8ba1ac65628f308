"""Work that trickles in is done a handful at a time, in the threads of a pool.

A body decoded alone, every fifteen milliseconds, costs three times what it costs among others: a
thread is woken for it, and caches are cold. So after a batch the next one gathers for a moment,
unless there is enough to do already. What comes after a silence is done nearly at once.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

from controlplane.errors import OverloadedError

logger = logging.getLogger(__name__)

BATCH = 64
BATCH_BYTES = 2 * 1024 * 1024
"""Pieces of work, and bytes of them, that do not wait for more, and that one thread takes."""
LARGE = 128 * 1024
"""Bytes of a piece that waits for no other: an engine sends what it has buffered, one by one."""
SETTLE_SECONDS = 0.02
"""What comes after a silence waits so long for what comes with it."""
MAX_WAITING_BYTES = 64 * 1024 * 1024


Item = TypeVar("Item")


class Gathering(Generic[Item]):
    """Batches for a pool. Safe to use from any thread.

    A large piece is done by itself, and whatever comes meanwhile finds another thread, as long as
    there is one.

    Args:
        threads: of the pool. pause_seconds: for which a batch gathers after the one before.
        bound: pieces that may wait at most.
        handle: does a batch, in a thread of the pool.
    """

    def __init__(
        self,
        threads: int,
        pause_seconds: float,
        bound: int,
        handle: Callable[[Sequence[Item]], None],
    ) -> None:
        self._pool = ThreadPoolExecutor(threads, "decode")
        self._threads = threads
        self._pause_seconds = pause_seconds
        self._bound = bound
        self._handle = handle
        self._waiting: deque[tuple[Item, int]] = deque()
        self._waiting_bytes = self._waiting_large = 0
        self._wake = threading.Condition()
        self._at_work = self._gathering = 0
        self._not_before = 0.0

    def submit(self, piece: Item, size: int = 0) -> None:
        """Have this done soon; `size`: bytes to work on.

        Raises:
            OverloadedError: too much waits already; nothing was queued.
        """
        with self._wake:
            if len(self._waiting) >= self._bound:
                raise OverloadedError(
                    f"{len(self._waiting)} requests wait to be decoded, the bound is "
                    f"{self._bound}: send again later",
                    field="queue", value=len(self._waiting), bound=self._bound,
                )  # fmt: skip
            if self._waiting and self._waiting_bytes + size > MAX_WAITING_BYTES:
                raise OverloadedError(
                    f"{self._waiting_bytes} bytes wait to be decoded, the bound is "
                    f"{MAX_WAITING_BYTES}: send again later",
                    field="queue", value=self._waiting_bytes, bound=MAX_WAITING_BYTES,
                )  # fmt: skip
            self._waiting.append((piece, size))
            self._waiting_bytes += size
            self._waiting_large += size >= LARGE
            if self._is_enough():
                self._wake.notify()
            self._call_a_thread()

    def close(self) -> None:
        """Do what waits, then end the threads."""
        with self._wake:
            self._pause_seconds = self._not_before = 0.0
            self._wake.notify_all()
        self._pool.shutdown()

    def _is_enough(self) -> bool:
        return (
            self._waiting_large > 0
            or len(self._waiting) >= BATCH
            or self._waiting_bytes >= BATCH_BYTES
        )

    def _call_a_thread(self) -> None:
        """For what waits, unless one gathers already. Call it with the lock."""
        if self._waiting and not self._gathering and self._at_work < self._threads:
            self._at_work += 1
            self._pool.submit(self._drain)

    def _drain(self) -> None:
        while batch := self._take():
            try:
                self._handle(batch)
            except Exception:
                logger.exception("work of a batch failed, and told nobody")

    def _take(self) -> list[Item]:
        """The next batch; empty when there is nothing, and this thread has gone back."""
        with self._wake:
            settle = min(SETTLE_SECONDS, self._pause_seconds)
            rest = max(self._not_before - time.monotonic(), settle)
            if rest > 0 and self._waiting:
                self._gathering += 1
                self._wake.wait_for(lambda: self._is_enough() or not self._pause_seconds, rest)
                self._gathering -= 1
            batch = self._fitting()
            if not batch:
                self._at_work -= 1
            self._not_before = time.monotonic() + self._pause_seconds
            self._call_a_thread()
            return batch

    def _fitting(self) -> list[Item]:
        batch: list[Item] = []
        room = BATCH_BYTES
        while self._waiting and len(batch) < BATCH and (not batch or self._waiting[0][1] <= room):
            piece, size = self._waiting.popleft()
            self._waiting_bytes -= size
            self._waiting_large -= size >= LARGE
            room -= size
            batch.append(piece)
        return batch
