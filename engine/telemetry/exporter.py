"""Sends frames to the control plane from a thread of its own; a step never waits for it.

At-least-once: a batch stays until it was acknowledged, or until the control plane has said that it
will never take it (`answers`), which drops the batch and counts it. Attempts are apart by
Retry-After or exponential backoff with full jitter. The buffer is bounded: the oldest frame goes.
"""

import logging
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import httpx
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsPartialSuccess,
    ExportLogsServiceResponse,
)

from contract.frame_codec import Frame, FrameError, encode
from contract.headers import LOGS_PATH, RETRY_AFTER
from contract.keep_alive import CLIENT_KEEP_ALIVE_SECONDS
from engine.telemetry.answers import Verdict, verdict, words
from engine.telemetry.delivery_log import AWAY, DeliveryLog
from engine.telemetry.frame_buffer import FrameBuffer
from engine.telemetry.otlp_logs import Encoding, PackedFrame, compress, export_request

log = logging.getLogger(__name__)

BATCH_FRAMES = 32
BATCH_BYTES = 4 * 1024 * 1024
BACKOFF_FIRST_SECONDS = 0.5
BACKOFF_MOST_SECONDS = 15.0
RETRY_AFTER_MOST_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Delivery:
    """What became of one attempt; `retry_seconds` None means final, `said` is for the log."""

    outcome: str
    said: str = ""
    retry_seconds: float | None = None


class FrameExporter:
    """Accepts frames at any time, delivers them in order.

    Args:
        url: the control plane, e.g. "http://127.0.0.1:8700"; `/v1/logs` is appended.
        token: bearer token bound to this engine's id, None for none.
        engine_id, boot_id: of every frame that will be sent.
        frames: bound of the buffer (900 is 15 minutes of 1 s frames).
        encoding: of the request body.
        transport: of httpx; None for the network.
        jitter: gives a number in [0, 1).
        sleep: waits for seconds, ends early and returns True when stopped; None for the real one.
    """

    def __init__(
        self,
        url: str,
        token: str | None,
        *,
        engine_id: str,
        boot_id: str,
        frames: int = 900,
        encoding: Encoding = "zstd",
        transport: httpx.BaseTransport | None = None,
        jitter: Callable[[], float] = random.random,
        sleep: Callable[[float], bool] | None = None,
    ) -> None:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._client = httpx.Client(
            base_url=url, headers=headers, transport=transport, timeout=httpx.Timeout(5.0),
            limits=httpx.Limits(keepalive_expiry=CLIENT_KEEP_ALIVE_SECONDS), trust_env=False,
        )  # fmt: skip
        self._engine_id = engine_id
        self._boot_id = boot_id
        self._encoding = encoding
        self._jitter = jitter
        self._log = DeliveryLog(engine_id, url)
        self._most = frames
        self._buffer = FrameBuffer(frames)
        self._batch_frames = BATCH_FRAMES
        self._in_flight = 0
        self._stopping = threading.Event()
        self._sleep = sleep or self._stopping.wait
        self._deadline = float("inf")
        self._flush_seconds = 0.0
        self._attempts = 0
        self._counts: Counter[str] = Counter()
        self._thread = threading.Thread(target=self._run, name="frame-exporter", daemon=True)

    @property
    def dropped(self) -> int:
        """Frames of this boot that were lost: the `dropped_before` of the next frame."""
        return self._buffer.dropped

    @property
    def counts(self) -> dict[str, int]:
        """Frames by outcome: `sent`, `dropped`, `waiting`; requests `retried`."""
        return {
            "sent": self._counts["sent"], "dropped": self.dropped,
            "waiting": len(self._buffer), "retried": self._counts["retried"],
        }  # fmt: skip

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def submit(self, frame: Frame) -> None:
        """Encode and enqueue; never waits for the network. `dropped_before` is filled in."""
        header = frame.header.model_copy(update={"dropped_before": self.dropped})
        try:
            body = encode(Frame(header=header, arrays=frame.arrays))
        except FrameError as error:
            log.warning("frame %d was not sent: %s", header.sequence, error)
            self._buffer.count_dropped(1)
            return
        nanoseconds = int(header.started_unix_seconds * 1e9)
        self._buffer.put(PackedFrame(header.sequence, body, nanoseconds))

    def wind_up(self, flush_seconds: float = 5.0) -> None:
        """Begin to end: what is left is tried for at most `flush_seconds`. `stop` waits for it."""
        if not self._stopping.is_set():
            self._flush_seconds = flush_seconds
            self._deadline = time.monotonic() + flush_seconds
            self._stopping.set()
            self._buffer.wake()

    def stop(self, flush_seconds: float = 5.0) -> None:
        """Send what is left for at most `flush_seconds`, end the thread, say what is lost by it."""
        self.wind_up(flush_seconds)
        if self._thread.ident is not None:
            self._thread.join(self._flush_seconds + 6.0)
        self._client.close()
        self._log.ended(len(self._buffer) + self._in_flight, self._flush_seconds)

    def _run(self) -> None:
        while self._work():
            batch = self._buffer.take(self._batch_frames, BATCH_BYTES)
            if batch:
                self._deliver(batch)

    def _work(self) -> bool:
        """Wait for frames; False when the thread should end."""
        if self._stopping.is_set():
            return len(self._buffer) > 0 and time.monotonic() < self._deadline
        self._buffer.wait(1.0)
        return True

    def _deliver(self, batch: list[PackedFrame]) -> None:
        self._in_flight = len(batch)
        delivery = self._post(batch)
        if delivery.outcome == Verdict.TOO_LARGE and len(batch) > 1:
            self._batch_frames = len(batch) // 2
            self._buffer.put_back(batch)
            self._in_flight = 0
        elif delivery.retry_seconds is None:
            self._end_with(batch, delivery)
        else:
            self._keep(batch, delivery)
            self._pause(delivery.retry_seconds)

    def _end_with(self, batch: list[PackedFrame], delivery: Delivery) -> None:
        self._in_flight = 0
        self._attempts = 0
        self._counts[delivery.outcome] += len(batch)
        if delivery.outcome == Verdict.SENT:
            self._batch_frames = min(2 * self._batch_frames, BATCH_FRAMES)
        else:
            self._buffer.count_dropped(len(batch))
            self._log.lost(delivery.said, len(batch))

    def _keep(self, batch: list[PackedFrame], delivery: Delivery) -> None:
        self._buffer.put_back(batch)
        self._in_flight = 0
        self._counts["retried"] += 1
        self._attempts += 1
        self._log.kept(
            delivery.outcome, delivery.said, attempts=self._attempts, waiting=len(self._buffer),
            most=self._most,
        )  # fmt: skip

    def _pause(self, seconds: float) -> None:
        if self._stopping.is_set():
            # The stop event no longer waits; a short real pause keeps the flush from spinning.
            pause = min(0.1, max(0.0, self._deadline - time.monotonic()))
            threading.Event().wait(pause)
        else:
            self._sleep(seconds)

    def _post(self, batch: list[PackedFrame]) -> Delivery:
        request = export_request(batch, engine_id=self._engine_id, boot_id=self._boot_id)
        body, headers = compress(request.SerializeToString(), self._encoding)
        try:
            answer = self._client.post(LOGS_PATH, content=body, headers=headers)
        except httpx.HTTPError as error:
            said = f"{type(error).__name__} {error}".rstrip()
            return Delivery(AWAY, said, self._backoff())
        found = verdict(answer.status_code)
        if found is Verdict.SENT:
            partial = _partial_success(answer)
            if partial is None:  # a page of a proxy: nobody took the frames
                return Delivery(Verdict.MISDIRECTED, words(answer), self._backoff())
            self._count_rejected(partial)
            return Delivery(found)
        if found in (Verdict.REFUSED, Verdict.TOO_LARGE):
            return Delivery(found, words(answer))
        return Delivery(found, words(answer), self._retry_after(answer) or self._backoff())

    def _count_rejected(self, partial: ExportLogsPartialSuccess) -> None:
        """A partial success is final: what was rejected is lost, and said."""
        if partial.rejected_log_records:
            self._buffer.count_dropped(partial.rejected_log_records)
            self._log.lost(partial.error_message[:200], partial.rejected_log_records)
        else:
            self._log.flows(self.dropped)

    def _backoff(self) -> float:
        growth: float = BACKOFF_FIRST_SECONDS * 2.0 ** min(self._attempts, 10)
        ceiling = min(BACKOFF_MOST_SECONDS, growth)
        return ceiling * (0.5 + 0.5 * self._jitter())

    def _retry_after(self, answer: httpx.Response) -> float | None:
        try:
            seconds = float(answer.headers.get(RETRY_AFTER, ""))
        except ValueError:
            return None
        bounded = min(max(seconds, 0.0), RETRY_AFTER_MOST_SECONDS)
        return bounded + self._jitter() * 0.5


def _partial_success(answer: httpx.Response) -> ExportLogsPartialSuccess | None:
    """What an OTLP receiver says of a request that it took; None for an answer of another kind."""
    try:
        said = ExportLogsServiceResponse.FromString(answer.content)
    except DecodeError:
        return None
    partial: ExportLogsPartialSuccess = said.partial_success
    return partial
