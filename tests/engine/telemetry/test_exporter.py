import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import numpy as np
import pytest
import zstandard
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from contract import CONTRACT_VERSION
from contract.frame import FrameHeader
from contract.frame_codec import Frame, decode
from contract.headers import FRAME_EVENT_NAME
from contract.runtime_config import RuntimeConfig
from engine.telemetry.exporter import FrameExporter
from engine.telemetry.frame_buffer import FrameBuffer
from engine.telemetry.otlp_logs import PackedFrame, compress, export_request


def frame(sequence: int) -> Frame:
    header = FrameHeader(
        contract_version=CONTRACT_VERSION, engine_id="e0", group="g", model="m", boot_id="b",
        sequence=sequence, started_unix_seconds=100.0 + sequence, interval_seconds=1.0, layers=1,
        experts=4, top_k=1, ranks=1, config_generation=0, config=RuntimeConfig(),
    )  # fmt: skip
    return Frame(header=header, arrays={"overflow": np.array([sequence], dtype=np.uint32)})


class Receiver:
    """An OTLP/HTTP receiver on loopback whose answers a test chooses."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.requests: list[dict[str, str]] = []
        self.answers: list[tuple[int, dict[str, str]]] = []
        self.arrived = threading.Condition()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.take(self.path, dict(self.headers), body)
                status, headers = receiver.answers.pop(0) if receiver.answers else (200, {})
                if status == 200:
                    receiver.store(body)
                self.send_response(status)
                for name, value in {"Content-Length": "0", **headers}.items():
                    self.send_header(name, value)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Quiet."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def take(self, path: str, headers: dict[str, str], _body: bytes) -> None:
        self.requests.append({"path": path, **headers})

    def store(self, body: bytes) -> None:
        plain = zstandard.ZstdDecompressor().decompress(body, max_output_size=1 << 24)
        request = ExportLogsServiceRequest.FromString(plain)
        with self.arrived:
            for logs in request.resource_logs:
                for scope in logs.scope_logs:
                    for record in scope.log_records:
                        assert record.event_name == FRAME_EVENT_NAME
                        self.frames.append(decode(record.body.bytes_value))
            self.arrived.notify_all()

    def wait_for(self, count: int) -> list[int]:
        with self.arrived:
            assert self.arrived.wait_for(lambda: len(self.frames) >= count, timeout=20)
        return [one.header.sequence for one in self.frames]

    def close(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def receiver():
    running = Receiver()
    yield running
    running.close()


def exporter(url: str, **named) -> FrameExporter:
    named.setdefault("sleep", lambda _seconds: False)
    return FrameExporter(url, "secret", engine_id="e0", boot_id="b", jitter=lambda: 0.0, **named)


def test_frames_arrive_in_order_as_otlp_events_with_the_token(receiver):
    sender = exporter(receiver.url)
    sender.start()
    for sequence in range(5):
        sender.submit(frame(sequence))
    assert receiver.wait_for(5) == [0, 1, 2, 3, 4]
    sender.stop()
    first = receiver.requests[0]
    assert first["path"] == "/v1/logs"
    assert first["Authorization"] == "Bearer secret"
    assert first["Content-Type"] == "application/x-protobuf"
    assert sender.counts == {"sent": 5, "dropped": 0, "waiting": 0, "retried": 0}


def test_a_busy_control_plane_is_asked_again_after_retry_after(receiver):
    waits: list[float] = []

    def sleep(seconds: float) -> bool:
        waits.append(seconds)
        return False

    receiver.answers = [(429, {"Retry-After": "7"}), (503, {}), (503, {"Retry-After": "900"})]
    sender = exporter(receiver.url, sleep=sleep)
    sender.submit(frame(0))
    sender.start()
    assert receiver.wait_for(1) == [0]
    sender.stop()
    assert waits == [7.0, 0.5, 60.0], "Retry-After, backoff of the second attempt, bounded"
    assert sender.counts["retried"] == 3


@pytest.mark.parametrize("status", [401, 403, 404, 308])
def test_what_says_nothing_of_the_frames_keeps_them_until_it_is_put_right(receiver, caplog, status):
    receiver.answers = [(status, {})] * 5
    sender = exporter(receiver.url)
    sender.submit(frame(0))
    sender.start()
    assert receiver.wait_for(1) == [0]
    sender.stop()
    assert sender.counts == {"sent": 1, "dropped": 0, "waiting": 0, "retried": 5}
    kept, flows = caplog.messages
    assert kept.startswith("engine e0: telemetry is buffered (1 frames wait, at most 900 are kept)")
    assert f"({status}" in kept
    assert flows == "engine e0: telemetry flows again; 0 frames of this boot were lost"


def test_a_page_that_says_200_has_taken_no_frames():
    answers = iter([httpx.Response(200, html="<html>log in</html>"), httpx.Response(200)])
    taken: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        taken.append(request)
        return next(answers)

    sender = exporter("http://proxy", transport=httpx.MockTransport(answer))
    sender.submit(frame(0))
    sender.start()
    while sender.counts["sent"] == 0:
        threading.Event().wait(0.01)
    sender.stop()
    assert sender.counts == {"sent": 1, "dropped": 0, "waiting": 0, "retried": 1}
    assert len(taken) == 2


def test_the_log_says_each_change_once_and_not_a_lone_failure(receiver, caplog):
    receiver.answers = [(503, {}), (200, {}), *[(401, {})] * 3, *[(503, {})] * 3]
    sender = exporter(receiver.url)
    sender.start()
    for sequence in range(2):
        sender.submit(frame(sequence))
        receiver.wait_for(sequence + 1)
    sender.stop()
    said = [message.partition(receiver.url)[2] for message in caplog.messages]
    assert [words.split(";")[0].split(" (")[0] for words in said] == [
        " does not accept its token", " cannot take frames now", "",
    ]  # fmt: skip


@pytest.mark.parametrize("status", [400, 413, 415, 422, 500])
def test_what_the_control_plane_refuses_is_dropped_and_counted(receiver, status):
    receiver.answers = [(status, {})]
    sender = exporter(receiver.url)
    sender.submit(frame(0))
    sender.start()
    while sender.dropped == 0:
        threading.Event().wait(0.01)
    sender.submit(frame(1))
    assert receiver.wait_for(1) == [1]
    sender.stop()
    assert receiver.frames[0].header.dropped_before == 1


def test_a_batch_that_is_too_large_is_sent_in_halves_and_a_frame_that_is_alone_is_dropped(receiver):
    receiver.answers = [(413, {}), (413, {}), (413, {}), (200, {})]
    sender = exporter(receiver.url)
    for sequence in range(4):
        sender.submit(frame(sequence))
    sender.start()
    assert receiver.wait_for(3) == [1, 2, 3]
    sender.stop()
    assert sender.counts == {"sent": 3, "dropped": 1, "waiting": 0, "retried": 0}


def test_an_absent_control_plane_costs_the_oldest_frames_only():
    lost: list[httpx.Request] = []
    enough = threading.Event()

    def away(request: httpx.Request) -> httpx.Response:
        lost.append(request)
        if len(lost) == 3:
            enough.set()
        raise httpx.ConnectError("away", request=request)

    stored: list[int] = []

    def back(request: httpx.Request) -> httpx.Response:
        sent = zstandard.ZstdDecompressor().decompress(request.read(), max_output_size=1 << 24)
        (logs,) = ExportLogsServiceRequest.FromString(sent).resource_logs
        records = logs.scope_logs[0].log_records
        stored.extend(decode(record.body.bytes_value).header.sequence for record in records)
        return httpx.Response(200)

    returned = threading.Event()

    def handler(request: httpx.Request) -> httpx.Response:
        return back(request) if returned.is_set() else away(request)

    sender = exporter("http://control", frames=600, transport=httpx.MockTransport(handler))
    for sequence in range(1000):
        sender.submit(frame(sequence))
    assert sender.dropped == 400
    sender.start()
    assert enough.wait(20)
    returned.set()
    while sender.counts["waiting"] or sender.counts["sent"] < 600:
        threading.Event().wait(0.01)
    sender.stop()
    assert stored == list(range(400, 1000))


def test_stop_flushes_and_is_bounded_when_nobody_answers_and_says_what_is_lost(caplog):
    def away(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("away", request=request)

    sender = exporter("http://control", transport=httpx.MockTransport(away))
    sender.submit(frame(0))
    sender.start()
    sender.stop(flush_seconds=0.2)
    assert sender.counts["waiting"] == 1
    assert not sender._thread.is_alive()
    assert caplog.messages[-1] == (
        "engine e0 stops with 1 frames undelivered, which are lost: the control plane at "
        "http://control did not take them within 0.2 s"
    )


def test_a_stop_that_delivered_everything_says_nothing(receiver, caplog):
    sender = exporter(receiver.url)
    sender.submit(frame(0))
    sender.start()
    sender.stop()
    assert sender.counts["sent"] == 1
    assert caplog.messages == []


def test_the_buffer_keeps_order_and_bounds_when_a_batch_comes_back():
    buffer = FrameBuffer(frames=3)
    for sequence in range(3):
        buffer.put(PackedFrame(sequence, b"x", 0))
    batch = buffer.take(2, 100)
    buffer.put(PackedFrame(3, b"x", 0))
    buffer.put(PackedFrame(4, b"x", 0))
    buffer.put_back(batch)
    assert [one.sequence for one in buffer.take(9, 100)] == [2, 3, 4]
    assert buffer.dropped == 2


def test_the_buffer_is_bounded_in_bytes_too():
    buffer = FrameBuffer(frames=100, byte_limit=10)
    for sequence in range(5):
        buffer.put(PackedFrame(sequence, b"xxxx", 0))
    assert [one.sequence for one in buffer.take(9, 100)] == [3, 4]


@pytest.mark.parametrize("encoding", ["zstd", "gzip", "identity"])
def test_every_encoding_is_named_in_the_headers(encoding):
    request = export_request([PackedFrame(0, b"body", 1)], engine_id="e0", boot_id="b")
    body, headers = compress(request.SerializeToString(), encoding)
    assert headers.get("Content-Encoding", "identity") == encoding
    assert body
