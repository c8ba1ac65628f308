"""Ranks as threads of one process: a real group over shared memory, quick enough for properties."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import torch


class ThreadGroup:
    """One rank of an `ExpertGroup` whose ranks are threads; a lost rank breaks the barrier."""

    def __init__(self, rank, barrier, board):
        self.rank, self.size = rank, barrier.parties
        self._barrier, self._board = barrier, board

    def _exchange(self, value):
        self._board[self.rank] = value
        self._barrier.wait(timeout=20)
        seen = list(self._board)
        self._barrier.wait(timeout=20)
        return seen

    def all_gather_counts(self, counts):
        return torch.stack(self._exchange(counts))

    def all_gather_rows(self, rows, rows_by_rank):
        seen = self._exchange(rows)
        assert [len(part) for part in seen] == list(rows_by_rank)
        return torch.cat(seen)

    def all_to_all(self, rows, send, receive):
        assert sum(send) == len(rows)
        seen = self._exchange(torch.split(rows, list(send)))
        parts = [sent[self.rank] for sent in seen]
        assert [len(part) for part in parts] == list(receive)
        return torch.cat(parts)


def run_threads(size, work):
    """`work(group)` on every rank at once; the results in rank order."""
    barrier, board = Barrier(size), [None] * size

    def rank(index):
        try:
            return work(ThreadGroup(index, barrier, board))
        except BaseException:
            barrier.abort()
            raise

    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(rank, range(size)))
