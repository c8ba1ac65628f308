"""The only reader of time in the control plane; tests pass their own clock."""

import time
from typing import Protocol


class Clock(Protocol):
    """Wall time for records, monotonic time for leases and deadlines."""

    def now(self) -> float:
        """Unix seconds, UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds that never step back."""
        ...


class SystemClock:
    """The machine's clocks."""

    def now(self) -> float:
        """Unix seconds, UTC."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds that never step back."""
        return time.monotonic()


class ManualClock:
    """A clock that moves only when told; both readings advance together."""

    def __init__(self, now: float = 1_700_000_000.0) -> None:
        self._now = now
        self._monotonic = 0.0

    def now(self) -> float:
        """Unix seconds, UTC."""
        return self._now

    def monotonic(self) -> float:
        """Seconds since this clock was made."""
        return self._monotonic

    def advance(self, seconds: float) -> None:
        """Move both readings forward."""
        self._now += seconds
        self._monotonic += seconds
