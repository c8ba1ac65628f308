"""Which frames of a boot have come: a high mark and the holes below it. Pure.

Delivery is at least once and may be out of order, so a frame is new when it is above the high mark
or inside a hole, and a duplicate otherwise. One whose number is in a hole and whose time is not, is
of an engine that began to count anew. State stays small however many frames come.
"""

from dataclasses import dataclass
from enum import StrEnum

BEFORE_FIRST = -1
MOST_PER_SECOND = 10
"""Frames that an engine can make, ten times what it does make."""
_SLACK_SECONDS = 86_400.0
TOLERANCE_SECONDS = 60.0
"""By so much an engine's clock may be set within a hole, and its frames still fill it."""


@dataclass(frozen=True, slots=True)
class Hole:
    """Missing sequences `first` to `last`, inclusive; `started` to `ended` in unix seconds."""

    first: int
    last: int
    started: float
    ended: float

    def fits(self, started: float, interval_seconds: float) -> bool:
        """Whether a frame that starts then can be one of the missing ones."""
        length = (self.last - self.first + 1) * interval_seconds
        slack = TOLERANCE_SECONDS + max(0.0, length - (self.ended - self.started))
        return self.started - slack <= started <= self.ended + slack


def can_have_made(frames: int, elapsed_seconds: float) -> bool:
    """Whether an engine can have made so many frames between two that came so long apart.

    What it had buffered comes faster than it was made: beyond the time that passed, a day is
    allowed.
    """
    return frames <= MOST_PER_SECOND * (max(0.0, elapsed_seconds) + _SLACK_SECONDS)


class Arrival(StrEnum):
    """What a frame is to its boot."""

    NEXT = "next"
    AFTER_HOLE = "after_hole"
    LATE = "late"
    MISPLACED = "misplaced"
    DUPLICATE = "duplicate"


@dataclass(frozen=True, slots=True)
class BootSequence:
    """How far a boot came.

    Attributes:
        high: highest sequence seen; -1 before the first frame.
        high_ended: end of that frame by its engine's clock, unix seconds.
        holes: what is missing below `high`, ascending.
    """

    high: int = BEFORE_FIRST
    high_ended: float = 0.0
    holes: tuple[Hole, ...] = ()

    def admit(
        self, sequence: int, started: float, ended: float, now: float
    ) -> tuple["BootSequence", Arrival]:
        """Take a frame in that comes `now`; gives the next state and what the frame was."""
        if sequence > self.high:
            if sequence == self.high + 1:
                return BootSequence(sequence, ended, self.holes), Arrival.NEXT
            hole = Hole(self.high + 1, sequence - 1, *self._since(sequence, started, ended, now))
            return BootSequence(sequence, ended, (*self.holes, hole)), Arrival.AFTER_HOLE
        for index, hole in enumerate(self.holes):
            if hole.first <= sequence <= hole.last:
                if not hole.fits(started, ended - started):
                    return self, Arrival.MISPLACED
                left = Hole(hole.first, sequence - 1, hole.started, max(hole.started, started))
                right = Hole(sequence + 1, hole.last, ended, max(hole.ended, ended))
                kept = tuple(part for part in (left, right) if part.first <= part.last)
                holes = (*self.holes[:index], *kept, *self.holes[index + 1 :])
                return BootSequence(self.high, self.high_ended, holes), Arrival.LATE
        return self, Arrival.DUPLICATE

    def _since(
        self, sequence: int, started: float, ended: float, now: float
    ) -> tuple[float, float]:
        """From when to when the frames before this one are missing.

        They lie between their neighbours. Where a clock was set meanwhile they lie beside the
        neighbour whose clock is nearer to ours, for as long as so many frames take.
        """
        if self.high < 0:
            return started, started
        length = (sequence - self.high - 1) * (ended - started)
        if started >= self.high_ended:
            return self.high_ended, min(started, max(now, self.high_ended + length))
        if abs(self.high_ended - now) <= abs(started - now):
            return self.high_ended, self.high_ended + length
        return started - length, started

    @property
    def missing(self) -> int:
        """Frames that have not come."""
        return sum(hole.last - hole.first + 1 for hole in self.holes)
