"""A server on loopback that ends each connection as its second request arrives, unanswered.

So a client meets what else is a race of milliseconds: an idle connection closed as it is used.
"""

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class ClosingServer:
    """Answers by `answer`, which gets a whole request and gives a whole response.

    Args:
        answered: requests of a connection that are answered; the next is read, and lost.
        reset: end by RST in place of FIN.
    """

    def __init__(
        self, answer: Callable[[bytes], bytes] = lambda _request: ANSWER, *, answered: int = 1,
        reset: bool = False,
    ) -> None:  # fmt: skip
        self.requests: list[bytes] = []
        self.connections = 0
        self._answer = answer
        self._answered = answered
        self._reset = reset
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    @contextmanager
    def running(self) -> Iterator["ClosingServer"]:
        thread = threading.Thread(target=self._accept, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            with suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            thread.join(10)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self.connections += 1
                threading.Thread(target=self._converse, args=(connection,), daemon=True).start()

    def _converse(self, connection: socket.socket) -> None:
        with connection:
            for turn in range(self._answered + 1):
                request = read_message(connection)
                if not request:
                    return
                self.requests.append(request)
                response = self._answer(request)
                if turn < self._answered:
                    connection.sendall(response)
            if self._reset:
                linger = struct.pack("ii", 1, 0)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)


def relay_to(port: int) -> Callable[[bytes], bytes]:
    """An `answer` that asks the server on a loopback port."""

    def ask(request: bytes) -> bytes:
        with socket.create_connection(("127.0.0.1", port)) as upstream:
            upstream.sendall(request)
            return read_message(upstream)

    return ask


def read_message(connection: socket.socket) -> bytes:
    """A request or a response with its body, which has a Content-Length; b"" at the end."""
    read = b""
    while b"\r\n\r\n" not in read:
        piece = connection.recv(65536)
        if not piece:
            return b""
        read += piece
    head, _, body = read.partition(b"\r\n\r\n")
    lengths = [
        int(line.partition(b":")[2]) for line in head.split(b"\r\n")
        if line.lower().startswith(b"content-length:")
    ]  # fmt: skip
    while len(body) < sum(lengths):
        body += connection.recv(65536)
    return head + b"\r\n\r\n" + body
