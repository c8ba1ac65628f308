"""Work that trickles in is done a handful at a time, in the threads of a pool.

A body decoded alone, every fifteen milliseconds, costs three times what it costs among others: a
thread is woken for it, and caches are cold. So after a batch the next one gathers for a moment,
unless there is enough to do already. What comes after a silence is done at once.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

from controlplane.errors import OverloadedError

Result = TypeVar("Result")
BATCH = 16
"""Pieces of work that do not wait for more."""


class Gathering(Generic[Result]):
    """Batches for a pool. Safe to use from any thread.

    Args:
        threads: of the pool. pause_seconds: for which a batch gathers after the one before.
        bound: pieces that may wait at most.
    """

    def __init__(self, threads: int, pause_seconds: float, bound: int) -> None:
        self._pool = ThreadPoolExecutor(threads, "decode")
        self._threads = threads
        self._pause_seconds = pause_seconds
        self._bound = bound
        self._waiting: deque[tuple[Callable[[], Result], Future[Result]]] = deque()
        self._wake = threading.Condition()
        self._at_work = 0
        self._not_before = 0.0

    def submit(self, work: Callable[[], Result]) -> Future[Result]:
        """Do this soon; the future has its result, or what it raised.

        Raises:
            OverloadedError: too much waits already; nothing was queued.
        """
        done: Future[Result] = Future()
        with self._wake:
            if len(self._waiting) >= self._bound:
                raise OverloadedError(
                    f"{len(self._waiting)} requests wait to be decoded, the bound is "
                    f"{self._bound}: send again later",
                    field="queue", value=len(self._waiting), bound=self._bound,
                )  # fmt: skip
            self._waiting.append((work, done))
            if self._is_enough():
                self._wake.notify()
            if self._at_work < min(self._threads, -(-len(self._waiting) // BATCH)):
                self._at_work += 1
                self._pool.submit(self._drain)
        return done

    def close(self) -> None:
        """Do what waits, then end the threads."""
        with self._wake:
            self._pause_seconds = self._not_before = 0.0
            self._wake.notify_all()
        self._pool.shutdown()

    def _is_enough(self) -> bool:
        return len(self._waiting) >= BATCH

    def _drain(self) -> None:
        while batch := self._take():
            for work, done in batch:
                if not done.set_running_or_notify_cancel():
                    continue
                try:
                    done.set_result(work())
                except BaseException as error:  # noqa: BLE001 - it belongs to whoever waits
                    done.set_exception(error)

    def _take(self) -> list[tuple[Callable[[], Result], Future[Result]]]:
        """The next batch; empty when there is nothing, and this thread has gone back."""
        with self._wake:
            rest = self._not_before - time.monotonic()
            if rest > 0 and self._waiting:
                self._wake.wait_for(lambda: self._is_enough() or not self._pause_seconds, rest)
            size = min(BATCH, len(self._waiting))
            if not size:
                self._at_work -= 1
            self._not_before = time.monotonic() + self._pause_seconds
            return [self._waiting.popleft() for _ in range(size)]
