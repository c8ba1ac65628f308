"""Connections of engines, read together.

A request that is read alone, every fifteen milliseconds, costs several times what it costs among
others: the processor has slept meanwhile, and its caches hold something else. So where many engines
send, what they send waits in their sockets, and twice a second it is read, all at once. Nothing
else is kept waiting: a socket that rests becomes readable when a large request comes, or the end of
the connection; and one on which something else was asked does not rest.

A socket rests by its low-water mark (`SO_RCVLOWAT`, socket(7)): the kernel does not call it
readable below so many bytes. Where there is none (Windows), no connection rests.
"""

import asyncio
import socket

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from contract.headers import LOGS_PATH
from controlplane.ingest.gathering import LARGE

MANY = 8
"""Connections from which it pays to keep them waiting for one another."""
OPEN_SECONDS = 0.005
"""For which resting sockets are readable; what has come is then read in one turn of the loop."""
_LOW_WATER = getattr(socket, "SO_RCVLOWAT", None)


def read_together(seconds: float) -> type[HttpToolsProtocol]:
    """The protocol of a server that reads engines' connections every `seconds`; 0: at any time."""
    if not seconds or _LOW_WATER is None:
        return HttpToolsProtocol
    together = _Together(seconds)

    class Connection(_EngineConnection):
        """One of this server's connections."""

        def rest(self) -> None:
            together.rest(self)

        def connection_lost(self, exc: Exception | None) -> None:
            together.forget(self)
            super().connection_lost(exc)

    return Connection


class _EngineConnection(HttpToolsProtocol):
    """A connection that rests once frames that came on it were answered.

    Not after a large request: an engine that sends what it has buffered waits for each answer.
    """

    _body_bytes = 0
    _socket: socket.socket | None = None

    def on_message_begin(self) -> None:
        self._body_bytes = 0
        super().on_message_begin()

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        super().on_body(body)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.is_idle and self._body_bytes < LARGE and self.scope["path"] == LOGS_PATH:
            self.rest()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._socket is not None:
            self._socket.detach()  # the event loop closes it
        super().connection_lost(exc)

    @property
    def is_idle(self) -> bool:
        """Whether all that came was answered, and more may come."""
        return self.cycle.response_complete and not self.transport.is_closing()

    def rest(self) -> None:
        """Frames were answered, and nothing else has come."""
        raise NotImplementedError

    def readable_from(self, size: int) -> None:
        """Be called readable once so many bytes have come."""
        if self._socket is None:
            self._socket = socket.socket(fileno=self.transport.get_extra_info("socket").fileno())
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, size)


class _Together:
    """The resting connections of one server. For its event loop alone."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._resting: set[_EngineConnection] = set()
        self._is_due = False

    def rest(self, connection: _EngineConnection) -> None:
        """Its next request is read with those of others."""
        self._resting.add(connection)
        if len(self._resting) >= MANY:
            connection.readable_from(LARGE)
        if not self._is_due:
            self._is_due = True
            connection.loop.call_later(self._seconds, self._open, connection.loop)

    def forget(self, connection: _EngineConnection) -> None:
        """It is lost."""
        self._resting.discard(connection)

    def _open(self, loop: asyncio.AbstractEventLoop) -> None:
        for connection in self._resting:
            if not connection.transport.is_closing():
                connection.readable_from(1)
        loop.call_later(OPEN_SECONDS, self._close, loop)

    def _close(self, loop: asyncio.AbstractEventLoop) -> None:
        """Those that are not busy rest again."""
        self._resting = {connection for connection in self._resting if connection.is_idle}
        self._is_due = bool(self._resting)
        if not self._resting:
            return
        if len(self._resting) >= MANY:
            for connection in self._resting:
                connection.readable_from(LARGE)
        loop.call_later(self._seconds - OPEN_SECONDS, self._open, loop)
