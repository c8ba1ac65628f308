"""From a request's bytes to durable frames, off the event loop, which is woken once, at the end."""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from controlplane.errors import OverloadedError, StorageError
from controlplane.history.ring import Outcome
from controlplane.ingest import otlp
from controlplane.ingest.body import inflate
from controlplane.ingest.gathering import Gathering
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


@dataclass(frozen=True, slots=True)
class Intake:
    """Decoders, and the writer behind them. Safe to use from any thread."""

    settings: IngestSettings
    writer: FrameWriter
    instruments: Instruments
    decoding: Gathering

    async def take(self, sent: Sent) -> Taken:
        """Store the frames of a request; they are durable when this returns.

        Raises:
            BodyTooLargeError, UndecodableBodyError, UnsupportedBodyError: it cannot be read.
            OverloadedError: no decoder has room (the body counts as one frame), or the writer.
            StorageError: the database cannot take its frames; none was stored.
        """
        answer = _Answer()
        try:
            self.decoding.submit(partial(self._decode, sent, answer), len(sent.body))
        except OverloadedError as error:
            self.count(sent.engine_id, error.kind)
            raise
        return await answer.future

    def count(self, engine_id: str, outcome: str, frames: int = 1) -> None:
        """Count frames by outcome."""
        counter = self.instruments.counter("trimtab_ingest_frames_total")
        counter.labels(engine_id, outcome).inc(frames)

    def _decode(self, sent: Sent, answer: "_Answer") -> None:
        if answer.future.cancelled():
            return  # the client is gone
        try:
            found = self._sorted(sent)
            if found.accepted:
                stored = self._submit(sent.engine_id, found)
                stored.add_done_callback(partial(self._stored, sent.engine_id, found, answer))
            else:
                answer.give(Taken(found, []))
        except Exception as error:  # noqa: BLE001 - it belongs to whoever waits
            answer.fail(error)

    def _sorted(self, sent: Sent) -> Sorted:
        body = inflate(sent.body, sent.encoding, self.settings.max_inflated_bytes)
        bodies = otlp.parse(body, sent.content_type)
        found = sort_frames(bodies.frames, sent.engine_id)
        if bodies.others:
            found.warnings.append(f"{bodies.others} log records are no frames and were not stored")
        for refusal in found.refused:
            self.count(sent.engine_id, refusal.kind)
        return found

    def _submit(self, engine_id: str, found: Sorted) -> Future[list[Outcome]]:
        try:
            return self.writer.submit(found.accepted)
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
            answer.give(Taken(found, stored.result()))
            return
        if isinstance(error, OverloadedError | StorageError):
            self.count(engine_id, error.kind, len(found.accepted))
        answer.fail(error)


class _Answer:
    """What a task of an event loop waits for, given from any thread."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Taken] = self._loop.create_future()

    def give(self, taken: Taken) -> None:
        self._call(self.future.set_result, taken)

    def fail(self, error: BaseException) -> None:
        self._call(self.future.set_exception, error)

    def _call(self, settle: Callable[[Any], None], value: object) -> None:
        try:
            self._loop.call_soon_threadsafe(self._settle, settle, value)
        except RuntimeError:
            logger.info("frames were handled after the event loop had ended")

    def _settle(self, settle: Callable[[Any], None], value: object) -> None:
        if not self.future.done():  # nobody waits when the client has gone away
            settle(value)
