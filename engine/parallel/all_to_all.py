"""Uneven dispatch and combine of one layer, with what each of them cost.

A collective ends when the slowest rank has come, so its time is a wait and a transfer:

- dispatch: the count exchange before it carries a few hundred bytes; its time is the wait.
- combine: a rank waits as long as the slowest peer computes longer than itself between the two
  exchanges. Ranks tell their compute time in the next step's count exchange, so the costs of a
  step are read one step later (by then the events of a CUDA stream have completed, too).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from engine.parallel.groups import ExpertGroup
from engine.parallel.stopwatch import HostStopwatch, Stopwatch

DISPATCH = 0
COMBINE = 1


@dataclass(frozen=True, slots=True)
class ExchangeCost:
    """One all-to-all on this rank.

    Attributes:
        op: 0 dispatch, 1 combine.
        wait_seconds: for peers.
        transfer_seconds: the rest.
        message_bytes: payload to each other rank.
    """

    op: int
    wait_seconds: float
    transfer_seconds: float
    message_bytes: tuple[int, ...]

    @property
    def bytes_sent(self) -> int:
        """Payload to all other ranks."""
        return sum(self.message_bytes)


@dataclass(slots=True)
class _Step:
    """Marks of one step in pairs: counts, dispatch, combine; and the messages of the last two."""

    marks: list[Any] = field(default_factory=list)
    messages: list[tuple[int, ...]] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        return len(self.marks) == 6


class AllToAll:
    """The exchanges of one layer.

    Args:
        group: the EP group.
        stopwatch: what tells the time.
    """

    def __init__(self, group: ExpertGroup, stopwatch: Stopwatch | None = None) -> None:
        self.group = group
        self._stopwatch = HostStopwatch() if stopwatch is None else stopwatch
        self._step = _Step()
        self._last = _Step()

    def gather_counts(self, vector: Tensor) -> Tensor:
        """int64 [n] → [M, n]; starts a step."""
        self._last, self._step = self._step, _Step()
        self._step.marks.append(self._stopwatch.mark())
        gathered = self.group.all_gather_counts(vector)
        self._step.marks.append(self._stopwatch.mark())
        return gathered

    def dispatch(self, rows: Tensor, send: Sequence[int], receive: Sequence[int]) -> Tensor:
        """Send rows [Σ send, w] out → [Σ receive, w]."""
        return self._exchange(rows, send, receive)

    def combine(self, rows: Tensor, send: Sequence[int], receive: Sequence[int]) -> Tensor:
        """Send results back, [Σ send, w] → [Σ receive, w]."""
        return self._exchange(rows, send, receive)

    def compute_nanoseconds(self) -> int:
        """Between dispatch and combine of the newest complete step; ask before `gather_counts`."""
        marks = self._step.marks
        if not self._step.complete:
            return 0
        return round(self._stopwatch.seconds(marks[3], marks[4]) * 1e9)

    def costs(self, compute_nanoseconds: Sequence[int]) -> tuple[ExchangeCost, ...]:
        """What dispatch and combine of the step before this one cost; empty before the second.

        Args:
            compute_nanoseconds: of every rank for that step, as this step's counts told.
        """
        if not self._last.complete:
            return ()
        marks, messages = self._last.marks, self._last.messages
        seconds = self._stopwatch.seconds
        behind = max(compute_nanoseconds) - compute_nanoseconds[self.group.rank]
        combine = seconds(marks[4], marks[5])
        wait = min(max(0, behind) / 1e9, combine)
        return (
            ExchangeCost(
                DISPATCH, seconds(marks[0], marks[1]), seconds(marks[2], marks[3]), messages[0]
            ),
            ExchangeCost(COMBINE, wait, combine - wait, messages[1]),
        )

    def _exchange(self, rows: Tensor, send: Sequence[int], receive: Sequence[int]) -> Tensor:
        width = rows.shape[1] * rows.element_size()
        self._step.messages.append(
            tuple(n * width for rank, n in enumerate(send) if rank != self.group.rank)
        )
        self._step.marks.append(self._stopwatch.mark())
        received = self.group.all_to_all(rows, send, receive)
        self._step.marks.append(self._stopwatch.mark())
        return received
