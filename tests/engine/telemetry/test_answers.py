"""What an answer says of the frames, and the reason that it gives."""

import httpx
import pytest
from google.rpc.status_pb2 import Status

from engine.telemetry.answers import Verdict, verdict, words


@pytest.mark.parametrize(
    ("found", "statuses"),
    [
        (Verdict.SENT, [200, 202]),
        (Verdict.BUSY, [408, 429, 502, 503, 504]),
        (Verdict.UNTRUSTED, [401, 403]),
        (Verdict.MISDIRECTED, [302, 308, 404, 405, 501]),
        (Verdict.TOO_LARGE, [413]),
        (Verdict.REFUSED, [400, 415, 422, 500]),
    ],
)
def test_only_a_verdict_on_the_body_drops_it(found, statuses):
    assert [verdict(status) for status in statuses] == [found] * len(statuses)


def test_the_reason_is_read_in_both_shapes_of_the_control_plane():
    status = Status(code=3, message="frame 7: crc").SerializeToString()
    protobuf = {"content-type": "application/x-protobuf"}
    assert words(httpx.Response(400, content=status, headers=protobuf)) == "400 frame 7: crc"
    problem = {"type": "t", "title": "T", "status": 401, "detail": "send a valid token"}
    assert words(httpx.Response(401, json=problem)) == "401 send a valid token"


def test_an_answer_of_something_else_gives_its_status():
    assert words(httpx.Response(404, text="<html>")) == "404 Not Found"
