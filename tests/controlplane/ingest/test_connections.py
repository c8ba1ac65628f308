"""Engines' connections are read together, and nobody else waits for that."""

import http.client
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import uvicorn

from contract.headers import LOGS_PATH
from controlplane.ingest.connections import MANY, ReadTogether
from controlplane.ingest.gathering import LARGE

SOON, NEVER = 0.03, 3600.0
"""An interval that no test waits for: what is read is read for another reason."""
SMALL, BIG = b"x" * 1000, b"x" * LARGE


class App:
    """Answers everything, and remembers what came."""

    def __init__(self) -> None:
        self.came: list[tuple[str, int]] = []

    async def __call__(self, scope, receive, send) -> None:
        size, more = 0, True
        while more:
            message = await receive()
            size += len(message.get("body", b""))
            more = message.get("more_body", False)
        self.came.append((scope["path"], size))
        headers = [(b"content-length", b"2")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"ok"})


@dataclass
class Site:
    """A server that reads together, and connections to it."""

    app: App
    server: uvicorn.Server
    together: ReadTogether
    port: int
    opened: list[http.client.HTTPConnection] = field(default_factory=list)

    def connect(self) -> http.client.HTTPConnection:
        self.opened.append(http.client.HTTPConnection("127.0.0.1", self.port, timeout=10))
        return self.opened[-1]

    def engines(self, count: int) -> list[http.client.HTTPConnection]:
        """Connections on which frames were answered, and on which nothing came for a while."""
        connections = [self.connect() for _ in range(count)]
        for connection in connections:
            assert _post(connection) == 200
        _until(lambda: all(one.is_quiet for one in tuple(self.together._idle)))
        assert len(self.together._idle) == count
        return connections

    def resting(self, count: int) -> list[http.client.HTTPConnection]:
        """The same, and from now on nothing is read together."""
        connections = self.engines(count)
        self.together.seconds = NEVER
        time.sleep(3 * SOON)
        return connections


@contextmanager
def serving(seconds: float) -> Iterator[Site]:
    app, together = App(), ReadTogether(seconds)
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        app, log_level="error", lifespan="off", ws="none", http=together.protocol()
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    _until(lambda: server.started)
    site = Site(app, server, together, listener.getsockname()[1])
    try:
        yield site
    finally:
        for connection in site.opened:
            connection.close()
        server.should_exit = server.force_exit = True
        thread.join(10)
        listener.close()


def _until(true) -> None:
    deadline = time.monotonic() + 10
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def _post(connection: http.client.HTTPConnection, body: bytes = SMALL) -> int:
    connection.request("POST", LOGS_PATH, body)
    return _answer(connection)


def _answer(connection: http.client.HTTPConnection) -> int:
    response = connection.getresponse()
    response.read()
    return response.status


def test_what_many_engines_send_is_left_in_their_sockets_and_read_together():
    with serving(0.3) as site:
        engines = site.engines(2 * MANY)
        for engine in engines:
            engine.request("POST", LOGS_PATH, SMALL)
        assert [_answer(engine) for engine in engines] == [200] * len(engines)
        assert site.app.came == [(LOGS_PATH, len(SMALL))] * (4 * MANY)


def test_a_small_request_on_a_resting_connection_waits():
    with serving(SOON) as site:
        engines = site.resting(2 * MANY)
        engines[-1].request("POST", LOGS_PATH, SMALL)
        time.sleep(0.1)
        assert len(site.app.came) == len(engines)


def test_a_large_request_on_a_resting_connection_is_read_at_once():
    with serving(SOON) as site:
        engine = site.resting(2 * MANY)[-1]
        assert [_post(engine, BIG) for _ in range(3)] == [200] * 3


def test_what_follows_a_large_request_does_not_wait():
    with serving(SOON) as site:
        engine = site.resting(2 * MANY)[-1]
        assert [_post(engine, body) for body in (BIG, SMALL, SMALL)] == [200] * 3


def test_the_end_of_a_large_request_may_come_later():
    with serving(SOON) as site:
        engine = site.resting(2 * MANY)[-1]
        engine.putrequest("POST", LOGS_PATH)
        engine.putheader("Content-Length", str(len(BIG) + len(SMALL)))
        engine.endheaders(BIG)
        time.sleep(0.1)
        engine.send(SMALL)
        assert _answer(engine) == 200
        assert site.app.came[-1] == (LOGS_PATH, len(BIG) + len(SMALL))


def test_a_connection_that_sends_as_fast_as_it_is_answered_does_not_rest():
    with serving(0.2) as site:
        busy = site.engines(2 * MANY)[-1]
        assert [_post(busy) for _ in range(2)] == [200] * 2
        site.together.seconds = NEVER
        assert [_post(busy) for _ in range(9)] == [200] * 9


def test_few_engines_do_not_wait_for_one_another():
    with serving(SOON) as site:
        for engine in site.resting(MANY - 1):
            assert [_post(engine) for _ in range(3)] == [200] * 3


def test_other_requests_do_not_wait():
    with serving(SOON) as site:
        site.resting(2 * MANY)
        person = site.connect()
        for _ in range(3):
            person.request("GET", "/api/v1/engines")
            assert _answer(person) == 200
        assert site.app.came[-3:] == [("/api/v1/engines", 0)] * 3


def test_the_end_of_a_resting_connection_is_noticed():
    with serving(SOON) as site:
        for engine in site.resting(2 * MANY)[:MANY]:
            engine.close()
        _until(lambda: len(site.server.server_state.connections) == MANY)
        assert len(site.together._idle) == MANY


def test_an_interval_of_zero_reads_at_any_time():
    with serving(0.0) as site:
        engines = [site.connect() for _ in range(2 * MANY)]
        assert {_post(engine) for _ in range(3) for engine in engines} == {200}


def test_a_server_stops_whoever_rests():
    with serving(SOON) as site:
        site.resting(2 * MANY)
        site.server.should_exit = True
        _until(lambda: not site.server.server_state.connections)
