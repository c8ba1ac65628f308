"""Requests decoded together: each gets its own answer, whatever the others hold."""

import asyncio
import gzip
import threading
import traceback

import pytest

from controlplane.clock import ManualClock
from controlplane.errors import StorageError
from controlplane.history.history import History
from controlplane.history.ring import Outcome
from controlplane.ingest.body import BodyTooLargeError, UndecodableBodyError
from controlplane.ingest.intake import Intake, Sent
from controlplane.ingest.writer import FrameWriter
from controlplane.metrics import Instruments
from controlplane.settings import HistorySettings, IngestSettings
from tests.support.frames import START, export_body, export_request, make_frame, received

PROTOBUF = "application/x-protobuf"


@pytest.fixture
def intake(sqlite_database):
    history = History(sqlite_database, HistorySettings(), ManualClock(START + 60))
    instruments = Instruments()
    writer = FrameWriter(history, IngestSettings(), history.clock, instruments)
    writer.start()
    made = Intake(IngestSettings(decode_threads=1), writer, instruments)
    yield made
    made.close()


def _sent(body: bytes, engine_id: str = "e0") -> Sent:
    return Sent(body, "", PROTOBUF, engine_id)


def _taken(intake: Intake, *requests: Sent) -> list:
    """What each request got; they come within the moment in which they gather."""

    async def together():
        return await asyncio.gather(*map(intake.take, requests), return_exceptions=True)

    return asyncio.run(together())


def test_each_of_a_batch_gets_its_own_answer(intake):
    damaged = bytearray(received(make_frame(1)).data)
    damaged[-1] ^= 1
    mixed = export_request([bytes(damaged), received(make_frame(2)).data]).SerializeToString()
    good, foreign, unreadable, partial, other = _taken(
        intake,
        _sent(export_body(make_frame(0))),
        _sent(export_body(make_frame(0)), "e1"),
        _sent(b"\xff\xff"),
        _sent(mixed),
        _sent(export_body(make_frame(0, engine_id="e2")), "e2"),
    )
    assert good.outcomes == other.outcomes == [Outcome.STORED]
    assert foreign.found.only_foreign
    assert isinstance(unreadable, UndecodableBodyError)
    assert [refusal.message for refusal in partial.found.refused] == [
        "frame 0: crc: crc32 does not match: the frame was damaged on its way"
    ]
    assert partial.outcomes == [Outcome.STORED]


def test_a_database_that_fails_fails_what_has_frames_and_nothing_else(intake, monkeypatch):
    def fail(*_args, **_kwargs):
        raise StorageError("the disk is full")

    monkeypatch.setattr(intake._writer._history, "append", fail)
    stored, empty = _taken(
        intake, _sent(export_body(make_frame(0))), _sent(export_request([]).SerializeToString())
    )
    assert isinstance(stored, StorageError)
    assert empty.outcomes == []


def test_what_another_thread_commits_is_answered(intake, monkeypatch):
    """A scrape flushes too, and may take along what requests have queued."""
    writer = intake._writer
    monkeypatch.setattr(writer, "flush", lambda: None)
    flush = threading.Timer(0.2, lambda: FrameWriter.flush(writer))
    flush.start()
    (taken,) = _taken(intake, _sent(export_body(make_frame(0))))
    flush.join()
    assert taken.outcomes == [Outcome.STORED]


def test_a_refusal_holds_nothing_of_the_body(intake):
    """Else refused bodies lie about, inflated, until somebody collects garbage."""
    (refused,) = _taken(intake, _sent(b"\xff" * 100_000)._replace(encoding="gzip"))
    (too_large,) = _taken(intake, Sent(gzip.compress(bytes(70 << 20), 1), "gzip", PROTOBUF, "e0"))
    assert isinstance(refused, UndecodableBodyError)
    assert isinstance(too_large, BodyTooLargeError)
    for error in (refused, too_large):
        assert error.__context__ is None
        frames = {frame.f_code.co_name for frame, _ in traceback.walk_tb(error.__traceback__)}
        assert frames <= {"take"}


def test_a_client_that_has_gone_holds_up_nobody(intake):
    async def gone():
        leaving = asyncio.ensure_future(intake.take(_sent(export_body(make_frame(0)))))
        staying = asyncio.ensure_future(intake.take(_sent(export_body(make_frame(1)))))
        await asyncio.sleep(0)
        leaving.cancel()
        return await staying

    assert asyncio.run(gone()).outcomes == [Outcome.STORED]
