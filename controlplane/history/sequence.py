"""Which frames of a boot have come: a high mark and the holes below it. Pure.

Delivery is at least once and may be out of order, so a frame is new when it is above the high mark
or inside a hole, and a duplicate otherwise. State stays small however many frames come.
"""

from dataclasses import dataclass
from enum import StrEnum

BEFORE_FIRST = -1


@dataclass(frozen=True, slots=True)
class Hole:
    """Missing sequences `first` to `last`, inclusive; `started` to `ended` in unix seconds."""

    first: int
    last: int
    started: float
    ended: float


class Arrival(StrEnum):
    """What a frame is to its boot."""

    NEXT = "next"
    AFTER_HOLE = "after_hole"
    LATE = "late"
    DUPLICATE = "duplicate"


@dataclass(frozen=True, slots=True)
class BootSequence:
    """How far a boot came.

    Attributes:
        high: highest sequence seen; -1 before the first frame.
        high_ended: end of that frame, unix seconds.
        holes: what is missing below `high`, ascending.
    """

    high: int = BEFORE_FIRST
    high_ended: float = 0.0
    holes: tuple[Hole, ...] = ()

    def admit(self, sequence: int, started: float, ended: float) -> tuple["BootSequence", Arrival]:
        """Take a frame in; gives the next state and what the frame was."""
        if sequence > self.high:
            if sequence == self.high + 1:
                return BootSequence(sequence, ended, self.holes), Arrival.NEXT
            since = min(self.high_ended, started) if self.high >= 0 else started
            hole = Hole(self.high + 1, sequence - 1, since, started)
            return BootSequence(sequence, ended, (*self.holes, hole)), Arrival.AFTER_HOLE
        for index, hole in enumerate(self.holes):
            if hole.first <= sequence <= hole.last:
                left = Hole(hole.first, sequence - 1, hole.started, started)
                right = Hole(sequence + 1, hole.last, ended, hole.ended)
                kept = tuple(part for part in (left, right) if part.first <= part.last)
                holes = (*self.holes[:index], *kept, *self.holes[index + 1 :])
                return BootSequence(self.high, self.high_ended, holes), Arrival.LATE
        return self, Arrival.DUPLICATE

    @property
    def missing(self) -> int:
        """Frames that have not come."""
        return sum(hole.last - hole.first + 1 for hole in self.holes)
