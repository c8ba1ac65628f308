"""Which frames of a boot have come: the first, the highest, and the holes. Pure.

Delivery is at least once and may be out of order, so a frame is new when it is above the highest,
before the first, or inside a hole, and a duplicate otherwise. One whose number is in a hole and
whose time is not, is of an engine that began to count anew. State stays small however many frames
come.

Before the first frame that came, nothing is missing: the engine may have sent it elsewhere, or to
nobody. Only frames that the engine itself says it dropped make a hole there.
"""

from dataclasses import dataclass, replace
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

    @property
    def frames(self) -> int:
        """How many are missing."""
        return self.last - self.first + 1

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
    BEFORE_FIRST = "before_first"
    MISPLACED = "misplaced"
    DUPLICATE = "duplicate"


@dataclass(frozen=True, slots=True)
class BootSequence:
    """How far a boot came.

    Attributes:
        high: highest sequence seen; -1 before the first frame.
        high_ended: end of that frame by its engine's clock, unix seconds.
        holes: what is missing below `high`, ascending. At most one lies below `first`, and ends
            just before it: what the engine said it dropped.
        first: lowest sequence seen.
        first_started: start of that frame, unix seconds.
    """

    high: int = BEFORE_FIRST
    high_ended: float = 0.0
    holes: tuple[Hole, ...] = ()
    first: int = 0
    first_started: float = 0.0

    def admit(
        self, sequence: int, started: float, ended: float, now: float
    ) -> tuple["BootSequence", Arrival]:
        """Take a frame in that comes `now`; gives the next state and what the frame was."""
        if self.high == BEFORE_FIRST:
            return BootSequence(sequence, ended, (), sequence, started), Arrival.NEXT
        if sequence > self.high:
            return self._after(sequence, started, ended, now)
        state, arrival = self._into_hole(sequence, started, ended)
        if sequence >= self.first or arrival is Arrival.MISPLACED:
            return state, arrival
        if arrival is Arrival.DUPLICATE:
            state = self._before(sequence, ended)
        return replace(state, first=sequence, first_started=started), Arrival.BEFORE_FIRST

    def with_dropped(self, dropped: int, interval_seconds: float) -> "BootSequence":
        """Believe an engine that it dropped frames of this boot before the first that came.

        Drops since then lie in holes already: a frame counts those before it, and every sequence
        between the first frame and it came or is in a hole. What goes beyond the holes is therefore
        older. Of older frames the last are taken, since those before may have gone elsewhere.

        Args:
            dropped: how many the engine says it dropped, in all of this boot.
            interval_seconds: of one frame.
        """
        told = self.holes[:1] if self._tells_drops else ()
        earliest = told[0].first if told else self.first
        unknown = min(dropped - self.missing, earliest)
        if unknown <= 0:
            return self
        frames = self.first - earliest + unknown
        since = self.first_started - frames * interval_seconds
        hole = Hole(earliest - unknown, self.first - 1, since, self.first_started)
        return replace(self, holes=(hole, *self.holes[len(told) :]))

    @property
    def missing(self) -> int:
        """Frames that have not come."""
        return sum(hole.frames for hole in self.holes)

    @property
    def _tells_drops(self) -> bool:
        """Whether the lowest hole lies before the first frame."""
        return bool(self.holes) and self.holes[0].last < self.first

    def _after(
        self, sequence: int, started: float, ended: float, now: float
    ) -> tuple["BootSequence", Arrival]:
        moved = replace(self, high=sequence, high_ended=ended)
        if sequence == self.high + 1:
            return moved, Arrival.NEXT
        hole = Hole(self.high + 1, sequence - 1, *self._since(sequence, started, ended, now))
        return replace(moved, holes=(*self.holes, hole)), Arrival.AFTER_HOLE

    def _since(
        self, sequence: int, started: float, ended: float, now: float
    ) -> tuple[float, float]:
        """From when to when the frames before this one are missing.

        They lie between their neighbours. Where a clock was set meanwhile they lie beside the
        neighbour whose clock is nearer to ours, for as long as so many frames take.
        """
        length = (sequence - self.high - 1) * (ended - started)
        if started >= self.high_ended:
            return self.high_ended, min(started, max(now, self.high_ended + length))
        if abs(self.high_ended - now) <= abs(started - now):
            return self.high_ended, self.high_ended + length
        return started - length, started

    def _into_hole(
        self, sequence: int, started: float, ended: float
    ) -> tuple["BootSequence", Arrival]:
        for index, hole in enumerate(self.holes):
            if hole.first <= sequence <= hole.last:
                if not hole.fits(started, ended - started):
                    return self, Arrival.MISPLACED
                left = Hole(hole.first, sequence - 1, hole.started, max(hole.started, started))
                right = Hole(sequence + 1, hole.last, ended, max(hole.ended, ended))
                kept = tuple(part for part in (left, right) if part.first <= part.last)
                holes = (*self.holes[:index], *kept, *self.holes[index + 1 :])
                return replace(self, holes=holes), Arrival.LATE
        return self, Arrival.DUPLICATE

    def _before(self, sequence: int, ended: float) -> "BootSequence":
        """What lies between a frame before all others and the next that is known is missing."""
        next_known, until = self.first, self.first_started
        if self._tells_drops:
            next_known, until = self.holes[0].first, self.holes[0].started
        if sequence + 1 == next_known:
            return self
        hole = Hole(sequence + 1, next_known - 1, min(ended, until), until)
        return replace(self, holes=(hole, *self.holes))
