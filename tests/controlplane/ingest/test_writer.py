"""The queue of frames: who put some in commits, one at a time, and nothing is left waiting."""

import threading

import pytest

from controlplane.clock import ManualClock
from controlplane.errors import OverloadedError
from controlplane.history.history import History
from controlplane.ingest.writer import FrameWriter
from controlplane.metrics import Instruments
from controlplane.settings import HistorySettings, IngestSettings
from tests.support.frames import START, make_frame, received


class Slow:
    """`History.append` that waits for a gate."""

    def __init__(self, history: History) -> None:
        self._append = history.append
        self.entered, self.gate = threading.Event(), threading.Event()

    def __call__(self, frames):
        self.entered.set()
        assert self.gate.wait(10)
        return self._append(frames)


@pytest.fixture
def history(sqlite_database):
    return History(sqlite_database, HistorySettings(), ManualClock(START + 60))


@pytest.fixture
def writer(history):
    made = FrameWriter(history, IngestSettings(), history.clock, Instruments())
    made.start()
    return made


def _frame(sequence: int):
    return [received(make_frame(sequence))]


def _commit_that_waits(writer, history, monkeypatch):
    """A frame's future, the gate that its commit waits at, and the thread that commits."""
    slow = Slow(history)
    monkeypatch.setattr(history, "append", slow)
    future = writer.submit(_frame(0))
    thread = threading.Thread(target=writer.flush)
    thread.start()
    assert slow.entered.wait(10)
    return future, slow, thread


def test_a_flush_commits_what_others_put_in_as_well(writer):
    futures = [writer.submit(_frame(n)) for n in range(3)]
    assert not any(future.done() for future in futures)
    writer.flush()
    assert all(future.done() for future in futures)


def test_frames_put_in_during_a_commit_are_taken_by_the_thread_that_commits(
    writer, history, monkeypatch
):
    first, slow, thread = _commit_that_waits(writer, history, monkeypatch)
    second = writer.submit(_frame(1))
    writer.flush()  # returns at once: another thread commits
    assert not second.done()
    slow.gate.set()
    thread.join()
    assert first.done()
    assert second.done()


def test_stopping_waits_for_what_was_taken_and_takes_no_more(writer, history, monkeypatch):
    taken, slow, thread = _commit_that_waits(writer, history, monkeypatch)
    stopping = threading.Thread(target=writer.stop)
    stopping.start()
    stopping.join(0.05)
    assert stopping.is_alive()
    slow.gate.set()
    stopping.join(10)
    assert taken.done()
    thread.join()
    with pytest.raises(OverloadedError, match="stopped"):
        writer.submit(_frame(1))


def test_a_flush_that_breaks_leaves_the_next_one_to_commit(writer, monkeypatch):
    writer.submit(_frame(0))
    with monkeypatch.context() as patched:
        patched.setattr(writer, "_store", lambda _group: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            writer.flush()
    later = writer.submit(_frame(1))
    writer.flush()
    assert later.done()


def test_commits_that_follow_one_another_for_a_second_are_catching_up(writer, history):
    assert not writer.is_catching_up()
    for n in range(30):
        writer.submit(_frame(n))
        writer.flush()
        history.clock.advance(0.05)
    assert writer.is_catching_up()
    history.clock.advance(0.2)
    assert not writer.is_catching_up()
