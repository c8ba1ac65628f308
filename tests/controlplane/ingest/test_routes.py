"""Frames over real HTTP."""

import base64
import gzip
import json
import socket
import threading

import httpx
import pytest
import zstandard
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)

from contract.frame_codec import encode
from controlplane.auth.access import Denied
from tests.support.frames import (
    START,
    export_body,
    export_request,
    make_frame,
)
from tests.support.receiver import PROTOBUF, TOKEN


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


@pytest.mark.parametrize("key", ["bytesValue", "bytes_value"])
@pytest.mark.parametrize("said", ["!!!!", "TU9F Rg==", "TU9FRg==TU9F"])
def test_bytes_that_are_no_base64_are_said_to_be_none(running, key, said):
    record = {"eventName": "moe.frame", "body": {key: said}}
    body = json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": [record]}]}]})
    response = running.post(body.encode(), kind="application/json")
    assert response.status_code == 400
    assert f"{key} is not base64: {said!r}" in response.json()["message"]


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


def test_a_sequence_that_no_engine_can_count_is_refused_with_the_reason(running):
    running.post(export_body(make_frame(0), make_frame(9)))
    partial = _partial(
        running.post(export_body(make_frame(5, started=START + 900), make_frame(10)))
    )
    assert partial.rejected_log_records == 1
    assert "sequence 5 of boot 'boot-a' starts at" in partial.error_message
    partial = _partial(running.post(export_body(make_frame(2**31))))
    assert "farther from the one before" in partial.error_message


@pytest.mark.parametrize(
    ("body", "encoding", "status", "said"),
    [
        (b"\xff\xff\xff", "", 400, "no OTLP logs request"),
        (b"plain", "gzip", 400, "not gzip"),
        (gzip.compress(b"x" * 100)[:-10], "gzip", 400, "ends early"),
        (gzip.compress(b"") + b"rest", "gzip", 400, "not gzip"),
        (b"plain", "zstd", 400, "not zstd"),
        (zstandard.ZstdCompressor().compress(b"x" * 100)[:-1], "zstd", 400, "ends early"),
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


@pytest.mark.parametrize(
    "header",
    [{"bias_version": 10**30}, {"dropped_before": 2**63},
     {"gauges": {"kv_blocks_used_ratio": float("nan")}}, {"contract_version": "9" * 5000 + ".1"}],
    ids=["bias_version", "dropped_before", "gauges", "contract_version"],
)  # fmt: skip
def test_a_frame_that_no_database_holds_is_malformed_and_not_to_be_retried(running, header):
    response = running.post(export_body(make_frame(**header)))
    assert response.status_code == 400
    assert next(iter(header)) in Status.FromString(response.content).message
    assert running.stored() == []


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


def test_an_empty_bearer_beside_a_cookie_reads_no_form_either(running):
    headers = {
        "Content-Type": "multipart/form-data", "Authorization": "Bearer",
        "Cookie": "trimtab_session=s",
    }  # fmt: skip
    answer = running.client.post(f"{running.url}/v1/logs", content=b"--y\r\n", headers=headers)
    assert answer.status_code == 401
