"""Connections of engines, read together.

A request that is read alone, every fifteen milliseconds, costs several times what it costs among
others: the processor has slept meanwhile, and its caches hold something else. So where many engines
send now and then, what they send waits in their sockets, and twice a second it is read, all at
once. Nobody else is kept waiting: a socket that rests becomes readable when a large request comes,
or the end of the connection; and a connection does not rest that sends one request after the other
(an engine that has buffered, a Collector between), or on which something else was asked.

A socket rests by its low-water mark (`SO_RCVLOWAT`, socket(7)): the kernel does not call it
readable below so many bytes. Where there is none (Windows), no connection rests.
"""

import asyncio
import socket
from collections.abc import Iterable
from typing import ClassVar

from contract.headers import LOGS_PATH
from contract.request_head import BoundedHead
from controlplane.ingest.gathering import LARGE

MANY = 8
"""Connections from which it pays to keep them waiting for one another."""
OPEN_SECONDS = 0.005
"""For which resting sockets are readable; what has come is then read in one turn of the loop."""
_LOW_WATER = getattr(socket, "SO_RCVLOWAT", None)


class ReadTogether:
    """The idle connections of one server. Its protocol and timers belong to one event loop.

    Attributes:
        seconds: from one reading to the next; 0 reads at any time.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._idle: set[_EngineConnection] = set()
        self._is_due = False

    def protocol(self) -> type[BoundedHead]:
        """What the server makes of each connection."""
        if not self.seconds or _LOW_WATER is None:
            return BoundedHead
        return type("EngineConnection", (_EngineConnection,), {"together": self})

    def answered(self, connection: "_EngineConnection") -> None:
        """A small request with frames was answered: it rests if nothing was there to read before.

        A connection whose request was there at the first reading after its last answer sends as
        fast as it is answered.
        """
        was_quiet, connection.is_quiet = connection.is_quiet, False
        self._idle.add(connection)
        if was_quiet:
            self._let_rest([connection])
        if not self._is_due:
            self._is_due = True
            connection.loop.call_later(self.seconds, self._open, connection.loop)

    def forget(self, connection: "_EngineConnection") -> None:
        """It is lost."""
        self._idle.discard(connection)

    def _let_rest(self, connections: Iterable["_EngineConnection"]) -> None:
        if len(self._idle) >= MANY:
            for connection in connections:
                connection.readable_from(LARGE)

    def _open(self, loop: asyncio.AbstractEventLoop) -> None:
        for connection in self._idle:
            connection.has_begun = False
            connection.readable_from(1)
        loop.call_later(OPEN_SECONDS, self._close, loop)

    def _close(self, loop: asyncio.AbstractEventLoop) -> None:
        """Those on which nothing came rest."""
        self._idle = {connection for connection in self._idle if connection.is_idle}
        quiet = [connection for connection in self._idle if not connection.has_begun]
        for connection in quiet:
            connection.is_quiet = True
        self._let_rest(quiet)
        self._is_due = bool(self._idle)
        if self._is_due:
            loop.call_later(max(self.seconds - OPEN_SECONDS, 0.0), self._open, loop)


class _EngineConnection(BoundedHead):
    """A connection that tells when frames that came on it were answered.

    Attributes:
        together: the idle connections of its server.
        has_begun: whether a request has come since it was last set to false.
        is_quiet: whether nothing was there at a reading since the last answer.
    """

    together: ClassVar[ReadTogether]
    has_begun = is_quiet = False
    _body_bytes = 0
    _socket: socket.socket | None = None
    _low_water = 1

    def on_message_begin(self) -> None:
        self.readable_from(1)  # whatever of a large request comes later
        self.has_begun = True
        self._body_bytes = 0
        super().on_message_begin()

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        super().on_body(body)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._body_bytes >= LARGE:
            self.is_quiet = False  # what an engine has buffered comes request after request
        elif self.is_idle and self.scope["path"] == LOGS_PATH:
            self.together.answered(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.together.forget(self)
        if self._socket is not None:
            self._socket.detach()  # the event loop closes it
            self._socket = None
        super().connection_lost(exc)

    @property
    def is_idle(self) -> bool:
        """Whether all that came was answered, and more may come."""
        return self.cycle.response_complete and not self.transport.is_closing()

    def readable_from(self, size: int) -> None:
        """Be called readable once so many bytes have come."""
        if size == self._low_water or self.transport.is_closing():
            return
        if self._socket is None:
            self._socket = socket.socket(fileno=self.transport.get_extra_info("socket").fileno())
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, size)
        self._low_water = size
