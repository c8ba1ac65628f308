"""A head without end is refused; one that ends is read, and so are bodies of any length."""

import socket
import threading
from collections.abc import Iterator

import pytest
import uvicorn

from contract.request_head import MAX_HEAD_BYTES, BoundedHead

BEGUN = b"GET / HTTP/1.1\r\nHost: x\r\nX: "


async def _app(scope, receive, send) -> None:
    more = True
    while more:
        message = await receive()
        more = message.get("more_body", False)
    await send(
        {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]}
    )
    await send({"type": "http.response.body", "body": b""})


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(_app, log_level="error", lifespan="off", ws="none", http=BoundedHead)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    yield listener.getsockname()[1]
    server.should_exit = server.force_exit = True
    thread.join(10)
    listener.close()


@pytest.fixture
def connection(port) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port), timeout=10) as opened:
        yield opened


def _until_closed(connection: socket.socket) -> bytes:
    said = b""
    while piece := connection.recv(4096):
        said += piece
    return said


def _answer(connection: socket.socket) -> bytes:
    return connection.recv(4096).split(b"\r\n")[0]


def _exactly(begun: bytes, size: int) -> bytes:
    return begun + b"a" * (size - len(begun))


@pytest.mark.parametrize("begun", [BEGUN, b"GET /", b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 10_000])
def test_a_head_without_end_is_refused(connection, begun):
    connection.sendall(_exactly(begun, MAX_HEAD_BYTES + 1))
    assert _until_closed(connection).startswith(b"HTTP/1.1 431 ")


def test_a_head_without_end_after_an_answered_request_is_refused(connection):
    connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    assert _answer(connection) == b"HTTP/1.1 200 OK"
    connection.sendall(_exactly(BEGUN, MAX_HEAD_BYTES + 1))
    assert _until_closed(connection).startswith(b"HTTP/1.1 431 ")


@pytest.mark.parametrize("begun", [b"0\r\nX: ", b"1;"])
def test_a_trailer_or_an_extension_without_end_ends_the_connection(connection, begun):
    head = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n"
    connection.sendall(head)
    assert _answer(connection) == b"HTTP/1.1 100 Continue"
    connection.sendall(_exactly(begun, MAX_HEAD_BYTES + 1))
    assert _until_closed(connection) == b""


def test_a_head_that_ends_within_the_bound_and_a_long_body_are_read(connection):
    connection.sendall(_exactly(BEGUN, MAX_HEAD_BYTES - 4) + b"\r\n\r\n")
    assert _answer(connection) == b"HTTP/1.1 200 OK"
    size = 20 * MAX_HEAD_BYTES
    connection.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % size)
    connection.sendall(b"x" * size)
    assert _answer(connection) == b"HTTP/1.1 200 OK"
