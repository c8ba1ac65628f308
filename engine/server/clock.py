"""The only reader of time in the server; tests pass their own clock."""

import time
from typing import Protocol


class Clock(Protocol):
    """Wall time for records, monotonic time for leases."""

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
