"""From a request's bytes to durable frames, off the event loop, which is woken once, at the end."""

import asyncio
import logging
from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from functools import partial
from itertools import islice
from typing import NamedTuple

from contract.frame import FrameHeader
from contract.frame_arrays import FrameError
from contract.frame_stack import verify
from controlplane.errors import OverloadedError, StorageError, TrimtabError
from controlplane.history.ring import Outcome
from controlplane.ingest import otlp
from controlplane.ingest.body import inflate
from controlplane.ingest.gathering import Gathering
from controlplane.ingest.otlp import LogBodies
from controlplane.ingest.sorting import Sorted, sort_frames
from controlplane.ingest.writer import FrameWriter
from controlplane.metrics import Instruments
from controlplane.settings import IngestSettings

logger = logging.getLogger(__name__)


class Sent(NamedTuple):
    """A request as it came, and whose token it was sent with."""

    body: bytes
    encoding: str
    content_type: str
    engine_id: str


class Taken(NamedTuple):
    """A request's frames, and what became of those that were accepted, in their order."""

    found: Sorted
    outcomes: list[Outcome]


class Intake:
    """Decoders, and the writer behind them. Safe to use from any thread.

    Answers are delivered when a batch is through, all with one call into the event loop: woken for
    the first of them, it would fight with this thread for the interpreter until the last.
    """

    def __init__(
        self, settings: IngestSettings, writer: FrameWriter, instruments: Instruments
    ) -> None:
        self.settings = settings
        self.instruments = instruments
        self._writer = writer
        self._settled: deque[_Settled] = deque()
        self.decoding: Gathering[_Request] = Gathering(
            settings.decode_threads, settings.gather_seconds, settings.queue_frames, self._handle
        )
        writer.after_flush = self._deliver

    async def take(self, sent: Sent) -> Taken:
        """Store the frames of a request; they are durable when this returns.

        Raises:
            BodyTooLargeError, UndecodableBodyError, UnsupportedBodyError: it cannot be read.
            OverloadedError: no decoder has room (the body counts as one frame), or the writer.
            StorageError: the database cannot take its frames; none was stored.
        """
        answer: _Answer = asyncio.get_running_loop().create_future()
        try:
            self.decoding.submit(_Request(sent, answer), len(sent.body))
        except OverloadedError as error:
            self.count(sent.engine_id, error.kind)
            raise
        try:
            return await answer
        finally:
            del answer, sent  # a refusal is held by its future: both would outlive the request

    def close(self) -> None:
        """Store and answer what waits; whoever comes later is not served."""
        self.decoding.close()

    def count(self, engine_id: str, outcome: str, frames: int = 1) -> None:
        """Count frames by outcome."""
        counter = self.instruments.counter("trimtab_ingest_frames_total")
        counter.labels(engine_id, outcome).inc(frames)

    def _settle(self, answer: "_Answer", value: Taken | BaseException) -> None:
        self._settled.append((answer, value))

    def _deliver(self) -> None:
        """What was settled, by whichever thread."""
        by_loop: dict[asyncio.AbstractEventLoop, list[_Settled]] = {}
        while self._settled:
            try:
                answer, value = self._settled.popleft()
            except IndexError:
                break  # another thread was quicker
            by_loop.setdefault(answer.get_loop(), []).append((answer, value))
        for loop, settled in by_loop.items():
            try:
                loop.call_soon_threadsafe(_deliver, settled)
            except RuntimeError:
                logger.info("frames were handled after the event loop had ended")

    def _handle(self, batch: Sequence["_Request"]) -> None:
        """Decode the requests of a batch together, and commit their frames."""
        read: list[tuple[_Request, LogBodies]] = []
        for request in batch:
            if request.answer.cancelled():
                continue  # the client is gone
            try:
                read.append((request, self._read(request.sent)))
            except Exception as error:  # noqa: BLE001 - it belongs to whoever waits
                self._settle(request.answer, _without_frames(error))
        verified = iter(verify([data for _, bodies in read for data in bodies.frames]))
        for request, bodies in read:
            engine_id = request.sent.engine_id
            own = islice(verified, len(bodies.frames))
            try:
                self._queue(request, self._sorted(bodies, own, engine_id))
            except Exception as error:  # noqa: BLE001 - the same
                self._settle(request.answer, error)
        self._writer.flush()

    def _read(self, sent: Sent) -> LogBodies:
        body = inflate(sent.body, sent.encoding, self.settings.max_inflated_bytes)
        return otlp.parse(body, sent.content_type)

    def _sorted(
        self, bodies: LogBodies, verified: Iterable[FrameHeader | FrameError], engine_id: str
    ) -> Sorted:
        found = sort_frames(bodies.frames, verified, engine_id)
        if bodies.others:
            found.warnings.append(f"{bodies.others} log records are no frames and were not stored")
        for refusal in found.refused:
            self.count(engine_id, refusal.kind)
        return found

    def _queue(self, request: "_Request", found: Sorted) -> None:
        if not found.accepted:
            self._settle(request.answer, Taken(found, []))
            return
        engine_id = request.sent.engine_id
        stored = self._submit(engine_id, found)
        stored.add_done_callback(partial(self._stored, engine_id, found, request.answer))

    def _submit(self, engine_id: str, found: Sorted) -> Future[list[Outcome]]:
        try:
            return self._writer.submit(found.accepted)
        except OverloadedError as error:
            self.count(engine_id, error.kind, len(found.accepted))
            raise

    def _stored(
        self, engine_id: str, found: Sorted, answer: "_Answer", stored: Future[list[Outcome]]
    ) -> None:
        error = stored.exception()
        if error is None:
            for outcome in stored.result():
                self.count(engine_id, outcome)
            self._settle(answer, Taken(found, stored.result()))
            return
        if isinstance(error, OverloadedError | StorageError):
            self.count(engine_id, error.kind, len(found.accepted))
        self._settle(answer, error)


class _Request(NamedTuple):
    sent: Sent
    answer: "_Answer"


_Answer = asyncio.Future[Taken]
"""What a task waits for: settled in any thread, delivered in its event loop."""
_Settled = tuple[_Answer, Taken | BaseException]


def _without_frames(error: Exception) -> Exception:
    """A refusal without where it was raised: those frames hold the inflated body."""
    found: BaseException | None = error
    while isinstance(error, TrimtabError) and found is not None:
        cause = found.__context__
        found.__traceback__ = found.__context__ = None
        found = cause
    return error


def _deliver(settled: Sequence[_Settled]) -> None:
    for answer, value in settled:
        if answer.done():
            continue  # nobody waits: the client has gone away
        if isinstance(value, BaseException):
            answer.set_exception(value)
        else:
            answer.set_result(value)
