"""The engine core's readers of time."""

import time

monotonic = time.monotonic


def unix_seconds() -> float:
    """Wall clock, for the stamps of frames only."""
    return time.time()
