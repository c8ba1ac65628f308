"""A pooled connection that its server closes as it is used, on real sockets."""

import httpx
import pytest

from contract.keep_alive import (
    CLIENT_KEEP_ALIVE_SECONDS,
    FOREIGN_KEEP_ALIVE_SECONDS,
    SERVER_KEEP_ALIVE_SECONDS,
)
from controlplane.reconnecting import Reconnecting
from tests.support.closing_server import ClosingServer


def client(server: ClosingServer) -> httpx.Client:
    return httpx.Client(base_url=server.url, transport=Reconnecting(15.0), trust_env=False)


@pytest.mark.parametrize("reset", [False, True])
def test_a_request_that_met_a_stale_connection_is_sent_again_on_a_fresh_one(reset):
    with ClosingServer(reset=reset).running() as server, client(server) as http:
        answers = [http.get("/config"), http.post("/config", content=b"body")]
        assert [answer.text for answer in answers] == ["ok", "ok"]
        assert [request.split(b" ")[0] for request in server.requests] == [b"GET", b"POST", b"POST"]
        assert server.requests[1] == server.requests[2], "the same request, its body included"
        assert server.connections == 2


def test_a_connection_made_for_a_request_that_fails_is_no_stale_one():
    with ClosingServer(answered=0).running() as server, client(server) as http:
        with pytest.raises(httpx.RemoteProtocolError):
            http.get("/config")
        assert len(server.requests) == 1


def test_a_request_is_sent_twice_at_most_though_every_pooled_connection_is_stale():
    answered = [b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"]
    with ClosingServer(lambda _: answered[0]).running() as server, client(server) as http:
        http.get("/config")
        answered[0] = b"nonsense\r\n\r\n"
        with pytest.raises(httpx.RemoteProtocolError):
            http.get("/config")
        assert len(server.requests) == 3


def test_a_body_that_can_be_read_only_once_is_not_sent_again():
    with ClosingServer().running() as server, client(server) as http:
        http.get("/config")
        with pytest.raises(httpx.RemoteProtocolError):
            http.post("/config", content=iter([b"bo", b"dy"]), headers={"Content-Length": "4"})
        assert len(server.requests) == 2


def test_clients_let_go_of_an_idle_connection_long_before_servers_do():
    assert 2 * CLIENT_KEEP_ALIVE_SECONDS <= SERVER_KEEP_ALIVE_SECONDS
    uvicorn_default = 5.0
    assert uvicorn_default >= 2 * FOREIGN_KEEP_ALIVE_SECONDS
