"""Which windows fall into the last so many seconds."""

from collections.abc import Sequence

from controlplane.history.window import EngineWindow


def last_seconds(windows: Sequence[EngineWindow], seconds: float, at: float) -> list[EngineWindow]:
    """Windows whose middle lies in the `seconds` before `at`; windows may differ in length."""
    return [w for w in windows if at - seconds <= (w.start + w.end) / 2.0 <= at]
