"""What cannot be stored now is asked for again, counted, and never lost."""

import threading

from google.rpc.status_pb2 import Status

from controlplane.errors import InvalidInputError, OverloadedError, StorageError
from controlplane.ingest.writer import _Waiting
from tests.support.frames import (
    export_body,
    gzipped,
    make_frame,
    received,
)


def test_a_full_ring_asks_to_send_again(running):
    for first in range(0, 60, 6):
        body = export_body(*(make_frame(i) for i in range(first, first + 6)))
        assert running.post(body).status_code == 200
    response = running.post(gzipped(make_frame(60)), "gzip")
    assert response.status_code == 503
    assert int(response.headers["retry-after"]) >= 1
    assert "sealed" in Status.FromString(response.content).message


def test_a_full_queue_asks_to_send_again_and_nothing_is_lost(running, monkeypatch):
    history = running.plane.history
    release, entered = threading.Event(), threading.Event()
    append = type(history).append

    def slow(self, frames):
        entered.set()
        release.wait(10)
        return append(self, frames)

    monkeypatch.setattr(type(history), "append", slow)
    results = []

    def send(first: int) -> None:
        results.append(running.post(export_body(*(make_frame(first + i) for i in range(4)))))

    threads = [threading.Thread(target=send, args=(0,))]
    threads[0].start()
    assert entered.wait(10)
    for first in (4, 8):
        threads.append(threading.Thread(target=send, args=(first,)))
        threads[-1].start()
    gauge = "trimtab_ingest_queue_frames 8.0"
    while gauge not in running.client.get(f"{running.url}/metrics").text:
        release.wait(0.01)
    response = running.post(export_body(make_frame(12)))
    assert response.status_code == 429
    assert int(response.headers["retry-after"]) >= 1
    release.set()
    for thread in threads:
        thread.join()
    assert [result.status_code for result in results] == [200, 200, 200]
    assert sorted(running.stored()) == list(range(12))


def test_a_database_that_cannot_write_asks_to_send_again_and_recovers(running, monkeypatch):
    history = running.plane.history

    def fails(_self, _frames):
        raise StorageError("the database cannot serve this now: database or disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(type(history), "append", fails)
        response = running.post(export_body(make_frame(0)))
        assert response.status_code == 503
        assert "disk is full" in Status.FromString(response.content).message
        ready = running.client.get(f"{running.url}/readyz")
        assert ready.status_code == 503
        assert "disk is full" in ready.text
    assert running.post(export_body(make_frame(0))).status_code == 200
    assert running.client.get(f"{running.url}/readyz").status_code == 200
    assert running.stored() == [0]


def test_metrics_count_frames_by_outcome_and_gaps(running):
    running.post(export_body(make_frame(0), make_frame(0), make_frame(3)))
    text = running.client.get(f"{running.url}/metrics").text
    assert 'trimtab_ingest_frames_total{engine="e0",outcome="stored"} 2.0' in text
    assert 'trimtab_ingest_frames_total{engine="e0",outcome="duplicate"} 1.0' in text
    assert 'trimtab_frame_gaps_total{engine="e0"} 2.0' in text
    assert "_created" not in text


def test_a_frame_that_fails_at_its_commit_takes_no_other_request_along(running, monkeypatch):
    """The defence behind the checks: whatever they let through fails alone."""
    history = running.plane.history
    append = history.append

    def picky(frames):
        if any(received.header.sequence == 7 for received in frames):
            raise InvalidInputError("sequence 7 fits no column")
        return append(frames)

    monkeypatch.setattr(history, "append", picky)
    group = [_Waiting([received(make_frame(sequence))]) for sequence in (0, 7, 1)]
    running.plane.writer._store(group)
    assert [waiting.done.exception() is None for waiting in group] == [True, False, True]
    assert running.stored() == [0, 1]


def test_a_refusal_for_want_of_a_decoder_is_counted(running, monkeypatch):
    def full(*_args):
        raise OverloadedError("512 requests wait to be decoded")

    monkeypatch.setattr(running.plane.intake.decoding, "submit", full)
    answer = running.post(export_body(make_frame(0)))
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")
    assert 'outcome="overloaded"' in running.plane.instruments.render().decode()


def test_every_frame_that_the_writer_has_no_room_for_is_counted(running, monkeypatch):
    def full(*_args):
        raise OverloadedError("512 frames wait to be stored")

    monkeypatch.setattr(running.plane.writer, "submit", full)
    assert running.post(export_body(*(make_frame(n) for n in range(3)))).status_code == 429
    counter = running.plane.instruments.counter("trimtab_ingest_frames_total")
    assert counter.labels("e0", "overloaded")._value.get() == 3
