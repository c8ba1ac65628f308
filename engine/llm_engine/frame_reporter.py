"""One frame an interval: ranks drain between two steps, a thread of its own builds the frame."""

import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import numpy as np

from contract.bias_hash import bias_hash
from contract.frame_codec import Frame
from engine.llm_engine.exchange import Bias
from engine.telemetry.frame_builder import FrameBuilder, FrameStatus
from engine.telemetry.request_metrics import RequestInterval, RequestMetrics
from engine.worker.messages import Drain, Drained

log = logging.getLogger(__name__)

FrameSink = Callable[[Frame], None]


@dataclass(slots=True)
class _Open:
    """A frame whose ranks have been asked."""

    number: int
    period: bool
    status: FrameStatus
    lkg_bias: Bias | None
    requests: RequestInterval
    started_unix: float
    seconds: float
    period_seconds: float
    drained: dict[int, Drained] = field(default_factory=dict)


class FrameReporter:
    """Cuts time into frames; used by the step thread, builds on its own thread.

    Args:
        num_ranks: ranks that drain.
        builder: numbers and merges.
        metrics: of the parent, drained with the ranks.
        frame_seconds, period_seconds: lengths of a frame and of its bucket arrays.
        sinks: each gets every frame.
        unix_seconds: the wall clock.
        now: the monotonic time at the start.
        free_bytes: the least that a rank had free when it had loaded; each drain renews it.
    """

    def __init__(
        self,
        *,
        num_ranks: int,
        builder: FrameBuilder,
        metrics: RequestMetrics,
        frame_seconds: float,
        period_seconds: float,
        sinks: tuple[FrameSink, ...],
        unix_seconds: Callable[[], float],
        now: float,
        free_bytes: int,
    ) -> None:
        self._num_ranks = num_ranks
        self._builder = builder
        self._metrics = metrics
        self._frame_seconds = frame_seconds
        self._period_seconds = period_seconds
        self._sinks = sinks
        self._unix_seconds = unix_seconds
        self._started, self._started_unix = now, unix_seconds()
        self._period_started = now
        self._next = now + frame_seconds
        self._number = 0
        self._open: _Open | None = None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="frames")
        self.free_bytes = free_bytes

    def seconds_left(self, now: float) -> float:
        """Time until the next frame is due, or worth asking again while one is open."""
        return max(self._frame_seconds / 4 if self._open else 0.0, self._next - now)

    def due(self, now: float) -> bool:
        """Whether ranks should drain now; a frame that is still open delays the next one."""
        return now >= self._next and self._open is None

    def begin(self, now: float, status: FrameStatus, lkg_bias: Bias | None) -> Drain:
        """Close the interval; the message goes to every rank."""
        period = now - self._period_started >= self._period_seconds - self._frame_seconds / 2
        self._number += 1
        self._open = _Open(
            number=self._number, period=period, status=status, lkg_bias=lkg_bias,
            requests=self._metrics.drain(), started_unix=self._started_unix,
            seconds=now - self._started, period_seconds=now - self._period_started,
        )  # fmt: skip
        self._started, self._started_unix = now, self._unix_seconds()
        if period:
            self._period_started = now
        self._next = max(self._next + self._frame_seconds, now + self._frame_seconds / 2)
        return Drain(frame=self._number, period=period)

    def drained(self, rank: int, message: Drained) -> None:
        """A rank's counts; the last one sends the frame on its way."""
        opened = self._open
        if opened is None or message.frame != opened.number:
            return
        opened.drained[rank] = message
        if len(opened.drained) == self._num_ranks:
            self.free_bytes = min(each.free_bytes for each in opened.drained.values())
            self._open = None
            self._thread.submit(self._build, opened).add_done_callback(_log_failure)

    def close(self) -> None:
        """Finish what is being built."""
        self._thread.shutdown(wait=True)

    def _build(self, opened: _Open) -> None:
        ranks = [each.counts for each in opened.drained.values() if each.counts is not None]
        live = opened.drained[0].bias
        frame = self._builder.build(
            ranks,
            opened.requests,
            _with_live_bias(opened.status, live, opened.lkg_bias),
            started_unix_seconds=opened.started_unix,
            interval_seconds=opened.seconds,
            period_seconds=opened.period_seconds if opened.period else 0.0,
        )
        for sink in self._sinks:
            sink(frame)


def _log_failure(building: "Future[None]") -> None:
    error = building.exception()
    if error is not None:
        log.error("a frame was lost: it could not be built", exc_info=error)


def hash_of(bias: Bias) -> str:
    """Content hash of a bias [L, E]."""
    layers, experts = bias.shape
    return bias_hash(
        np.ascontiguousarray(bias, dtype="<f4").tobytes(), layers=layers, experts=experts
    )


def _with_live_bias(status: FrameStatus, live: Bias | None, lkg: Bias | None) -> FrameStatus:
    if live is None:
        return status
    distance = 0.0 if lkg is None else float(np.abs(live - lkg).max())
    return replace(status, live_bias=hash_of(live), bias_distance=distance)
