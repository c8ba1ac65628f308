"""Messages over a socket pair between the engine and one rank: length, then a pickle.

Pickle is safe here: both ends are processes of one engine, over an unnamed socket pair that no one
else can open. The engine's end never blocks, so a rank that stops in the middle of a message
cannot stop the engine; the rank's end blocks.
"""

import pickle
import socket
import struct
import threading
from typing import cast

from engine.worker.messages import FromRank, ToRank

_LENGTH = struct.Struct("<I")
_READ_BYTES = 1 << 16


class ChannelClosedError(Exception):
    """The other end is gone."""


def _pack(message: object) -> bytes:
    body = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    return _LENGTH.pack(len(body)) + body


class RankEnd:
    """The rank's end: blocking; `send` may be called from several threads."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._socket.settimeout(None)
        self._sending = threading.Lock()

    def send(self, message: FromRank) -> None:
        """Write one message whole.

        Raises:
            ChannelClosedError: the engine is gone.
        """
        try:
            with self._sending:
                self._socket.sendall(_pack(message))
        except OSError as error:
            raise ChannelClosedError from error

    def receive(self) -> ToRank:
        """Wait for the next message.

        Raises:
            ChannelClosedError: the engine is gone.
        """
        (length,) = _LENGTH.unpack(self._exactly(_LENGTH.size))
        return cast("ToRank", pickle.loads(self._exactly(length)))  # noqa: S301 - own processes

    def _exactly(self, size: int) -> bytearray:
        data = bytearray(size)
        view = memoryview(data)
        while view:
            try:
                count = self._socket.recv_into(view)
            except OSError as error:
                raise ChannelClosedError from error
            if count == 0:
                raise ChannelClosedError
            view = view[count:]
        return data


class EngineEnd:
    """The engine's end of one rank's channel: never blocks, keeps what could not be sent yet."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._socket.settimeout(0.0)
        self._unsent = bytearray()
        self._read = bytearray()

    def fileno(self) -> int:
        """The descriptor to wait on."""
        return self._socket.fileno()

    @property
    def has_unsent(self) -> bool:
        """Whether bytes wait for the rank to read; call `flush` when the socket is writable."""
        return bool(self._unsent)

    def send(self, message: ToRank) -> None:
        """Queue a message and write what the socket takes.

        Raises:
            ChannelClosedError: the rank is gone.
        """
        self._unsent += _pack(message)
        self.flush()

    def flush(self) -> None:
        """Write what the socket takes now."""
        try:
            while self._unsent:
                sent = self._socket.send(self._unsent)
                del self._unsent[:sent]
        except BlockingIOError:
            return
        except OSError as error:
            raise ChannelClosedError from error

    def receive(self) -> list[FromRank]:
        """Every whole message that has arrived, maybe none.

        Raises:
            ChannelClosedError: the rank is gone and all it said has been read.
        """
        closed = self._fill()
        messages = self._take()
        if closed and not messages:
            raise ChannelClosedError
        return messages

    def close(self) -> None:
        """Close the socket; the rank sees the end of its input and exits."""
        self._socket.close()

    def _fill(self) -> bool:
        while True:
            try:
                data = self._socket.recv(_READ_BYTES)
            except BlockingIOError:
                return False
            except OSError:
                return True
            if not data:
                return True
            self._read += data
            if len(data) < _READ_BYTES:
                return False

    def _take(self) -> list[FromRank]:
        messages: list[FromRank] = []
        while len(self._read) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._read)
            end = _LENGTH.size + length
            if len(self._read) < end:
                break
            body = bytes(self._read[_LENGTH.size : end])
            messages.append(pickle.loads(body))  # noqa: S301 - own processes
            del self._read[:end]
        return messages


def channel_pair() -> tuple[EngineEnd, socket.socket]:
    """The engine's end, and the raw socket that travels to the rank's process."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    return EngineEnd(ours), theirs
