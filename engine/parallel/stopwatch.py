"""Two ways to time an exchange: the host's clock, or events on a CUDA stream.

Marks are read a step later, when events have long completed, so that reading never waits.
"""

import time
from typing import Any, Protocol

import torch


class Stopwatch(Protocol):
    """Marks moments and tells the time between two of them."""

    def mark(self) -> Any:
        """A moment."""
        ...

    def seconds(self, start: Any, stop: Any) -> float:
        """Seconds between two marks."""
        ...


class HostStopwatch:
    """The monotonic clock: right where collectives block the host (gloo)."""

    def mark(self) -> float:
        """Now, in seconds."""
        return time.perf_counter()

    def seconds(self, start: float, stop: float) -> float:
        """The difference."""
        return stop - start


class CudaStopwatch:
    """Events on the current stream: right where collectives are queued (NCCL)."""

    def mark(self) -> torch.cuda.Event:
        """An event at the end of what is queued now."""
        event: torch.cuda.Event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record()
        return event

    def seconds(self, start: torch.cuda.Event, stop: torch.cuda.Event) -> float:
        """Device time between two completed events."""
        return float(start.elapsed_time(stop)) / 1e3
