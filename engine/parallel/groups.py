"""The expert-parallel group as a layer sees it: who am I, and four collectives.

Every rank calls the same collectives in the same order, with nothing to say too (an idle rank).
"""

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor


class ExpertGroup(Protocol):
    """M ranks that hold the experts together; each rank owns its tokens."""

    @property
    def rank(self) -> int:
        """This rank, 0 ≤ rank < size."""
        ...

    @property
    def size(self) -> int:
        """M, ranks of the group."""
        ...

    def all_gather_counts(self, counts: Tensor) -> Tensor:
        """int64 [n] of every rank → int64 [M, n]; n is the same on every rank."""
        ...

    def all_gather_rows(self, rows: Tensor, rows_by_rank: Sequence[int]) -> Tensor:
        """[n_r, w] of every rank, n_r known to all → [Σ n_r, w] in rank order."""
        ...

    def all_to_all(self, rows: Tensor, send: Sequence[int], receive: Sequence[int]) -> Tensor:
        """Exchange runs of rows: `send[r]` rows go to rank r, `receive[r]` come from it.

        Args:
            rows: [Σ send, w], in order of destination rank.
            send: rows to each rank, this one included.
            receive: rows from each rank, this one included.

        Returns:
            [Σ receive, w], in order of source rank.
        """
        ...


class LocalGroup:
    """One rank that holds every expert: each collective is the identity."""

    rank = 0
    size = 1

    def all_gather_counts(self, counts: Tensor) -> Tensor:
        """[n] → [1, n]."""
        return counts.unsqueeze(0)

    def all_gather_rows(self, rows: Tensor, rows_by_rank: Sequence[int]) -> Tensor:  # noqa: ARG002 -- one rank knows its own rows
        """The rows themselves."""
        return rows

    def all_to_all(self, rows: Tensor, send: Sequence[int], receive: Sequence[int]) -> Tensor:  # noqa: ARG002 -- likewise
        """The rows themselves."""
        return rows
