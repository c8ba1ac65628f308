"""The expert-parallel group of CPU ranks on one machine: a socket pair between every two ranks.

A decode step's exchanges carry a few kilobytes, so what they cost is waking up. Gloo wakes its
worker thread and its network thread on both sides, here only the reader wakes: measured on two
cores, 18 against 290 µs an exchange (`trimtab bench ep-curve` prints steps over both).
"""

import select
import socket
from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor


class PeerGoneError(Exception):
    """Another rank has ended; whoever watches the ranks knows which one, and why."""


class SocketGroup:
    """An `ExpertGroup` over connected stream sockets. CPU tensors only.

    Every rank first sends what its sockets take, then reads. Messages too long for the sockets'
    buffers are sent while reading, so that two ranks never wait for one another.

    Args:
        rank: this rank.
        peers: a blocking socket to every other rank, None at this rank's own place.
    """

    def __init__(self, rank: int, peers: Sequence[socket.socket | None]) -> None:
        self.rank = rank
        self.size = len(peers)
        self._peers = {
            other: peer for other, peer in enumerate(peers) if peer is not None and other != rank
        }
        if len(self._peers) != self.size - 1:
            raise ValueError(
                f"rank {rank} of {self.size} has sockets to {sorted(self._peers)} only"
            )

    def all_gather_counts(self, counts: Tensor) -> Tensor:
        """int64 [n] of every rank → int64 [M, n]."""
        gathered = counts.new_empty(self.size, counts.numel())
        gathered[self.rank] = counts
        self._share(_bytes(gathered), [gathered[0].nbytes] * self.size)
        return gathered

    def all_gather_rows(self, rows: Tensor, rows_by_rank: Sequence[int]) -> Tensor:
        """[n_r, w] of every rank, n_r known to all → [Σ n_r, w] in rank order."""
        gathered = rows.new_empty(sum(rows_by_rank), rows.shape[1])
        start = sum(rows_by_rank[: self.rank])
        gathered[start : start + len(rows)] = rows
        width = rows.shape[1] * rows.element_size()
        self._share(_bytes(gathered), [n * width for n in rows_by_rank])
        return gathered

    def all_to_all(self, rows: Tensor, send: Sequence[int], receive: Sequence[int]) -> Tensor:
        """Runs of rows to every rank, runs of rows from every rank; see `ExpertGroup`."""
        received = rows.new_empty(sum(receive), rows.shape[1])
        width = rows.shape[1] * rows.element_size()
        outgoing = _split(_bytes(rows.contiguous()), [n * width for n in send])
        incoming = _split(_bytes(received), [n * width for n in receive])
        incoming[self.rank][:] = outgoing[self.rank]
        self._exchange(outgoing, incoming)
        return received

    def _share(self, gathered: memoryview, sizes: Sequence[int]) -> None:
        """Send this rank's part of `gathered` to all, and fill in theirs."""
        parts = _split(gathered, sizes)
        self._exchange([parts[self.rank]] * self.size, parts)

    def _exchange(self, outgoing: list[memoryview], incoming: list[memoryview]) -> None:
        unsent = {}
        for other, peer in self._peers.items():
            rest = outgoing[other][_send(peer, outgoing[other]) :]
            if len(rest):
                unsent[other] = rest
        unread = {other: incoming[other] for other in self._peers if len(incoming[other])}
        while unsent:
            self._progress(unsent, unread)
        for other in list(unread):
            while other in unread:
                count = _receive(self._peers[other], unread[other], socket.MSG_WAITALL)
                _advance(unread, other, count)

    def _progress(self, unsent: dict[int, memoryview], unread: dict[int, memoryview]) -> None:
        """Wait until some peer takes or gives bytes, and do that."""
        ranks = {peer.fileno(): other for other, peer in self._peers.items()}
        poll = select.poll()
        for other, peer in self._peers.items():
            wanted = (select.POLLOUT if other in unsent else 0) | (
                select.POLLIN if other in unread else 0
            )
            if wanted:
                poll.register(peer, wanted)
        for descriptor, events in poll.poll():
            other = ranks[descriptor]
            peer = self._peers[other]
            if other in unsent and events & (select.POLLOUT | select.POLLERR | select.POLLHUP):
                _advance(unsent, other, _send(peer, unsent[other]))
            if other in unread and events & select.POLLIN:
                _advance(unread, other, _receive(peer, unread[other], socket.MSG_DONTWAIT))


def connect(ranks: int) -> list[list[socket.socket | None]]:
    """The sockets of every rank: element [a][b] talks to [b][a]. The caller closes its copies."""
    peers: list[list[socket.socket | None]] = [[None] * ranks for _ in range(ranks)]
    for a in range(ranks):
        for b in range(a):
            peers[a][b], peers[b][a] = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    return peers


def _bytes(values: Tensor) -> memoryview:
    return values.view(-1).view(torch.uint8).numpy().data


def _split(values: memoryview, sizes: Sequence[int]) -> list[memoryview]:
    return [values[end - size : end] for size, end in zip(sizes, accumulate(sizes), strict=True)]


def _send(peer: socket.socket, data: memoryview) -> int:
    """Bytes that the socket took now."""
    if not len(data):
        return 0
    try:
        return peer.send(data, socket.MSG_DONTWAIT)
    except BlockingIOError:
        return 0
    except OSError as error:
        raise PeerGoneError(str(error)) from error


def _receive(peer: socket.socket, view: memoryview, flags: int) -> int:
    """Bytes that were read; 0 raises, for it means that the peer has ended."""
    try:
        count = peer.recv_into(view, len(view), flags)
    except OSError as error:
        raise PeerGoneError(str(error)) from error
    if not count:
        raise PeerGoneError("a peer has closed its socket")
    return count


def _advance(views: dict[int, memoryview], other: int, count: int) -> None:
    rest = views.pop(other)[count:]
    if len(rest):
        views[other] = rest
