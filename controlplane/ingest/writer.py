"""The one way of frames into the history: a bounded queue, committed group by group.

A request's future completes after the commit, so an acknowledged frame is durable. A thread that
has put frames in commits what waits, its own and that of others, so none has to be woken for it;
when one does so already, it takes these too. While a commit runs the next group gathers: the slower
the disk, the larger the groups.
"""

import logging
import math
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from controlplane.clock import Clock
from controlplane.errors import (
    InvalidInputError,
    OverloadedError,
    StorageError,
    TrimtabError,
)
from controlplane.history.history import History
from controlplane.history.ring import Appended, Outcome, ReceivedFrame
from controlplane.metrics import Instruments
from controlplane.settings import IngestSettings

FAILURE_SECONDS = 10.0
CATCHING_UP_SECONDS = 1.0
IDLE_SECONDS = 0.1
"""Without a frame for so long, the writer keeps up."""

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Waiting:
    frames: Sequence[ReceivedFrame]
    done: Future[list[Outcome]] = field(default_factory=Future)


class FrameWriter:
    """Takes frames from any thread; start it, submit, flush, stop it.

    `after_flush` is called by every thread that has flushed.
    """

    after_flush: Callable[[], None] = staticmethod(lambda: None)

    def __init__(
        self, history: History, settings: IngestSettings, clock: Clock, instruments: Instruments
    ) -> None:
        self._history = history
        self._settings = settings
        self._clock = clock
        self._instruments = instruments
        self._queue: deque[_Waiting] = deque()
        self._waiting_frames = 0
        self._lock = threading.Condition(threading.RLock())
        self._running = self._committing = False
        self._newest_ended: dict[str, float] = {}
        self._failure: tuple[float, str] | None = None
        self._busy_since = self._busy_until = -math.inf

    def start(self) -> None:
        """Take frames; ages of engines that sent frames before are shown from now on."""
        for boot in self._history.newest_boots():
            self._saw(boot.engine_id, boot.last_ended, boot.last_received)
        self._running = True

    def stop(self) -> None:
        """Take no more; when this returns, what was taken is committed."""
        with self._lock:
            self._running = False
        self.flush()
        with self._lock:
            self._lock.wait_for(lambda: not self._committing)

    def submit(self, frames: Sequence[ReceivedFrame]) -> Future[list[Outcome]]:
        """Queue the frames of one request; the future completes when they are durable: flush.

        Raises:
            OverloadedError: the queue is full, or the writer has stopped; nothing was queued.
        """
        waiting = _Waiting(frames)
        bound = self._settings.queue_frames
        with self._lock:
            if not self._running:
                raise OverloadedError("the frame writer is stopped: send again later")
            if self._queue and self._waiting_frames + len(frames) > bound:
                raise OverloadedError(
                    f"{self._waiting_frames} frames wait to be stored, the bound is {bound}: "
                    "send again later",
                    field="queue", value=self._waiting_frames, bound=bound,
                )  # fmt: skip
            self._queue.append(waiting)
            self._count_waiting(len(frames))
        return waiting.done

    def flush(self) -> None:
        """Commit what waits, or leave it to the thread that commits now; futures tell when."""
        if self._take_turn():
            self._commit_all()
        self.after_flush()

    def _take_turn(self) -> bool:
        """Whether this thread is the one that commits now."""
        with self._lock:
            is_free = not self._committing
            self._committing = True
        return is_free

    def _commit_all(self) -> None:
        began = self._clock.monotonic()
        if began - self._busy_until > IDLE_SECONDS:
            self._busy_since = began
        try:
            while group := self._next_group():
                self._store(group)
                self._busy_until = self._clock.monotonic()
        except BaseException:
            self._hand_over()
            raise

    def recent_failure(self) -> str:
        """Why the last commit failed, if it did within the last 10 s; empty otherwise."""
        failure = self._failure
        if failure is None or self._clock.monotonic() - failure[0] > FAILURE_SECONDS:
            return ""
        return failure[1]

    def is_catching_up(self) -> bool:
        """Whether commits have followed one another for a second or more."""
        is_busy = self._clock.monotonic() - self._busy_until <= IDLE_SECONDS
        return is_busy and self._busy_until - self._busy_since >= CATCHING_UP_SECONDS

    def _next_group(self) -> list[_Waiting]:
        """What to commit next; with nothing left, this thread is no longer the one that commits."""
        group: list[_Waiting] = []
        size = 0
        with self._lock:
            while self._queue and (
                not group or size + len(self._queue[0].frames) <= self._settings.batch_frames
            ):
                waiting = self._queue.popleft()
                size += len(waiting.frames)
                group.append(waiting)
            self._count_waiting(-size)
            if not group:
                self._hand_over()
        return group

    def _hand_over(self) -> None:
        """The next thread that puts frames in commits."""
        with self._lock:
            self._committing = False
            self._lock.notify_all()

    def _count_waiting(self, change: int) -> None:
        self._waiting_frames += change
        self._instruments.gauge("trimtab_ingest_queue_frames").set(self._waiting_frames)

    def _store(self, group: list[_Waiting]) -> None:
        frames = [received for waiting in group for received in waiting.frames]
        began = self._clock.monotonic()
        try:
            appended = self._history.append(frames)
        except StorageError as error:
            self._fail(group, error)
            return
        except TrimtabError as error:
            self._store_apart(group, error)
            return
        except Exception as error:
            logger.exception("storing a group of frames failed")
            said = f"the frames cannot be stored: {type(error).__name__}"
            self._store_apart(group, InvalidInputError(said))
            return
        self._failure = None
        seconds = self._clock.monotonic() - began
        self._instruments.histogram("trimtab_ingest_seconds").observe(seconds)
        self._count_gaps(appended)
        now = self._clock.now()
        for received in frames:
            header = received.header
            self._saw(header.engine_id, header.ended_unix_seconds, now)
        outcomes = iter(appended.outcomes)
        for waiting in group:
            waiting.done.set_result([next(outcomes) for _ in waiting.frames])

    def _store_apart(self, group: list[_Waiting], error: TrimtabError) -> None:
        """The fault is in a frame: its request fails alone, and those of others are stored."""
        if len(group) == 1:
            group[0].done.set_exception(error)
            return
        for waiting in group:
            self._store([waiting])

    def _fail(self, group: list[_Waiting], error: TrimtabError) -> None:
        self._failure = (self._clock.monotonic(), error.detail)
        for waiting in group:
            waiting.done.set_exception(error)

    def _count_gaps(self, appended: Appended) -> None:
        gaps = self._instruments.counter("trimtab_frame_gaps_total")
        for engine_id, missing in appended.newly_missing.items():
            gaps.labels(engine_id).inc(max(0, missing))  # a late frame fills a gap: negative

    def _saw(self, engine_id: str, ended: float, received: float) -> None:
        """Keep the end of an engine's newest frame; its age is computed when it is asked for.

        A frame that ends after it was received tells of a clock that runs ahead: its own time
        would hide the engine's silence for as long.
        """
        ended = min(ended, received)
        known = self._newest_ended.get(engine_id)
        self._newest_ended[engine_id] = ended if known is None else max(known, ended)
        if known is None:
            gauge = self._instruments.gauge("trimtab_frame_age_seconds").labels(engine_id)
            gauge.set_function(lambda: max(0.0, self._clock.now() - self._newest_ended[engine_id]))
