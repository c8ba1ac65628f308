"""Frames over real HTTP."""

import base64
import gzip
import json
import socket
import threading
from dataclasses import dataclass

import httpx
import pytest
import zstandard
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)

from contract.frame_codec import encode
from controlplane.app import Plane, create_app
from controlplane.auth.access import Denied
from controlplane.errors import InvalidInputError, OverloadedError, StorageError
from controlplane.ingest.writer import _Waiting
from controlplane.settings import load_settings
from tests.support.frames import (
    START,
    export_body,
    export_request,
    gzipped,
    make_frame,
    received,
)
from tests.support.server import serving

TOKEN = "tt_engine-zero-secret"
PROTOBUF = "application/x-protobuf"


@dataclass
class Running:
    url: str
    plane: Plane
    client: httpx.Client

    def post(self, body: bytes, encoding: str = "", kind: str = PROTOBUF, token: str = TOKEN):
        headers = {"Content-Type": kind, "Authorization": f"Bearer {token}"}
        if encoding:
            headers["Content-Encoding"] = encoding
        return self.client.post(f"{self.url}/v1/logs", content=body, headers=headers)

    def stored(self, engine_id: str = "e0") -> list[int]:
        frames = self.plane.history.frames(engine_id, START - 1e6, START + 1e6)
        return [frame.header.sequence for frame in frames]


@pytest.fixture
def running(sqlite_url):
    settings = load_settings(
        database_url=sqlite_url,
        engines=[{"id": "e0", "url": "http://127.0.0.1:1", "telemetry_token": TOKEN}],
        ingest={
            "max_body_bytes": 200_000,
            "max_inflated_bytes": 400_000,
            "queue_frames": 8,
            "gather_seconds": 0,
        },
        history={"ring_frames": 60},
        auth={"admin_token": "tt_admin-secret-16"},
    )
    app = create_app(settings)
    with serving(app) as url, httpx.Client() as client:
        yield Running(url, app.state.plane, client)


def _partial(response: httpx.Response):
    assert response.status_code == 200
    return ExportLogsServiceResponse.FromString(response.content).partial_success


@pytest.mark.parametrize(
    ("encoding", "pack"),
    [
        ("", bytes),
        ("identity", bytes),
        ("gzip", gzip.compress),
        ("zstd", zstandard.ZstdCompressor().compress),
    ],
)
def test_a_batch_is_durable_once_it_is_acknowledged(running, encoding, pack):
    body = pack(export_body(*(make_frame(i) for i in range(3))))
    response = running.post(body, encoding)
    assert response.status_code == 200
    assert response.headers["content-type"] == PROTOBUF
    assert not ExportLogsServiceResponse.FromString(response.content).HasField("partial_success")
    assert running.stored() == [0, 1, 2]
    assert running.post(body, encoding).status_code == 200
    assert running.stored() == [0, 1, 2]


def test_json_is_read_and_answered_in_json(running):
    record = {
        "eventName": "moe.frame",
        "body": {"bytesValue": base64.b64encode(encode(make_frame(0))).decode()},
        "timeUnixNano": "1700000000000000000",
    }
    body = {"resourceLogs": [{"scopeLogs": [{"logRecords": [record]}]}]}
    response = running.post(json.dumps(body).encode(), kind="application/json; charset=utf-8")
    assert response.status_code == 200
    assert response.json() == {}
    assert running.stored() == [0]


def test_a_malformed_frame_is_refused_and_the_others_are_kept(running):
    damaged = bytearray(encode(make_frame(1)))
    damaged[-1] ^= 0xFF
    request = export_request([encode(make_frame(0)), bytes(damaged), b"no frame"])
    partial = _partial(running.post(request.SerializeToString()))
    assert partial.rejected_log_records == 2
    assert "frame 1: crc" in partial.error_message
    assert "frame 2: truncated" in partial.error_message
    assert running.stored() == [0]


def test_only_malformed_frames_are_a_bad_request(running):
    response = running.post(export_request([b"MOEFgarbage-and-more"]).SerializeToString())
    assert response.status_code == 400
    assert "frame 0" in Status.FromString(response.content).message


def test_a_frame_of_another_engine_names_both_ids(running):
    denials: list[Denied] = []
    running.plane.access.on_denied.append(denials.append)
    response = running.post(export_body(make_frame(0, engine_id="e9")))
    assert response.status_code == 403
    said = Status.FromString(response.content).message
    assert "'e9'" in said
    assert "'e0'" in said
    assert [denied.path for denied in denials] == ["/v1/logs"]

    mixed = export_body(make_frame(0), make_frame(0, engine_id="e9"))
    assert _partial(running.post(mixed)).rejected_log_records == 1
    assert running.stored() == [0]
    assert running.stored("e9") == []


def test_a_newer_minor_contract_is_stored_with_a_warning_and_a_major_is_refused(running):
    partial = _partial(running.post(export_body(make_frame(0, contract_version="1.9"))))
    assert partial.rejected_log_records == 0
    assert "1.9" in partial.error_message
    response = running.post(export_body(make_frame(1, contract_version="2.0")))
    assert response.status_code == 400
    assert "2.0" in Status.FromString(response.content).message
    assert running.stored() == [0]


def test_records_that_are_no_frames_are_left_out_with_a_warning(running):
    request = export_request([encode(make_frame(0))])
    request.resource_logs[0].scope_logs[0].log_records.add().body.string_value = "hello"
    partial = _partial(running.post(request.SerializeToString()))
    assert partial.rejected_log_records == 0
    assert "1 log records are no frames" in partial.error_message


@pytest.mark.parametrize(
    ("body", "encoding", "status", "said"),
    [
        (b"\xff\xff\xff", "", 400, "no OTLP logs request"),
        (b"plain", "gzip", 400, "not gzip"),
        (gzip.compress(b"x" * 100)[:-10], "gzip", 400, "ends early"),
        (b"plain", "zstd", 400, "not zstd"),
        (b"x", "br", 415, "'br'"),
        (b"x" * 200_001, "", 413, "200000"),
        (gzip.compress(b"x" * 400_001), "gzip", 413, "400000"),
        (zstandard.ZstdCompressor().compress(b"x" * 10_000_000), "zstd", 413, "400000"),
    ],
)
def test_a_bad_body_is_a_clear_error(running, body, encoding, status, said):
    response = running.post(body, encoding)
    assert response.status_code == status
    assert said in Status.FromString(response.content).message


def test_a_chunked_body_over_the_bound_is_refused(running):
    def pieces():
        for _ in range(30):
            yield b"x" * 10_000

    response = running.post(pieces())
    assert response.status_code == 413


def test_an_unknown_content_type_is_refused(running):
    assert running.post(b"", kind="text/plain").status_code == 415


@pytest.mark.parametrize(("token", "status"), [("tt_wrong-wrong-wrong", 401),
                                               ("tt_admin-secret-16", 403)])  # fmt: skip
def test_only_an_engine_token_may_send(running, token, status):
    response = running.post(export_body(make_frame(0)), token=token)
    assert response.status_code == status
    assert response.headers["content-type"] == "application/problem+json"


def test_an_empty_request_is_fine(running):
    assert running.post(ExportLogsServiceRequest().SerializeToString()).status_code == 200


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


@pytest.mark.parametrize(
    "header",
    [{"sequence": 10**30, "started": START}, {"dropped_before": 2**63}, {"probe_nll": float("nan")},
     {"contract_version": "9" * 5000 + ".1"}],
    ids=["sequence", "dropped_before", "probe_nll", "contract_version"],
)  # fmt: skip
def test_a_frame_that_no_database_holds_is_malformed_and_not_to_be_retried(running, header):
    response = running.post(export_body(make_frame(**header)))
    assert response.status_code == 400
    assert next(iter(header)) in Status.FromString(response.content).message
    assert running.stored() == []


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


def test_a_client_that_goes_away_in_its_upload_leaves_no_word_in_the_log(running, caplog):
    address = httpx.URL(running.url)
    head = (
        f"POST /v1/logs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n"
        f"Content-Type: {PROTOBUF}\r\nContent-Length: 100\r\n\r\n"
    )
    with socket.create_connection((address.host, address.port)) as connection:
        connection.sendall(head.encode() + b"half")
        threading.Event().wait(0.2)  # the application waits for the rest of the body by now
    assert running.client.get(f"{running.url}/healthz").status_code == 200
    assert _partial(running.post(export_body(make_frame(0)))).rejected_log_records == 0
    assert caplog.records == []


def test_a_form_with_a_cookie_is_not_read_and_no_bearer_is_a_plain_401(running):
    for kind in ("multipart/form-data", "multipart/form-data; boundary=x", PROTOBUF):
        headers = {
            "Content-Type": kind,
            "Authorization": "Basic eDp5",
            "Cookie": "trimtab_session=s",
        }
        answer = running.client.post(
            f"{running.url}/v1/logs", content=b"--y\r\n" * 9, headers=headers
        )
        assert answer.status_code == 401
        assert "bearer" in answer.json()["detail"]


def test_a_refusal_for_want_of_a_decoder_is_counted(running, monkeypatch):
    def full(*_args):
        raise OverloadedError("512 requests wait to be decoded")

    monkeypatch.setattr(running.plane.intake.decoding, "submit", full)
    answer = running.post(export_body(make_frame(0)))
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")
    assert 'outcome="overloaded"' in running.plane.instruments.render().decode()


def test_an_empty_bearer_beside_a_cookie_reads_no_form_either(running):
    headers = {
        "Content-Type": "multipart/form-data", "Authorization": "Bearer",
        "Cookie": "trimtab_session=s",
    }  # fmt: skip
    answer = running.client.post(f"{running.url}/v1/logs", content=b"--y\r\n", headers=headers)
    assert answer.status_code == 401


def test_every_frame_that_the_writer_has_no_room_for_is_counted(running, monkeypatch):
    def full(*_args):
        raise OverloadedError("512 frames wait to be stored")

    monkeypatch.setattr(running.plane.writer, "submit", full)
    assert running.post(export_body(*(make_frame(n) for n in range(3)))).status_code == 429
    counter = running.plane.instruments.counter("trimtab_ingest_frames_total")
    assert counter.labels("e0", "overloaded")._value.get() == 3
