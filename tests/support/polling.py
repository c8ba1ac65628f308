"""Waiting for other processes: ask again until the answer will do, never sleep and hope."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
GENEROUS = 300.0
"""Seconds that anything may take on a machine with other work."""


def until(
    ask: Callable[[], T | None],
    what: str,
    *,
    seconds: float = GENEROUS,
    every: float = 0.1,
    show: Callable[[], object] | None = None,
) -> T:
    """The first truthy answer.

    Args:
        ask: raises only when waiting on is pointless.
        what: is waited for, for the failure.
        seconds, every: deadline and pause.
        show: adds to the failure what was there instead.
    """
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        answer = ask()
        if answer:
            return answer
        time.sleep(every)
    seen = "" if show is None else f"; now: {show()}"
    raise AssertionError(f"{what} did not happen in {seconds:.0f} s{seen}")
