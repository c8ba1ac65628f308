"""All three SLOs of one engine at one moment. Pure: takes windows, gives statuses."""

from collections.abc import Sequence

from controlplane.history.window import EngineWindow
from controlplane.slo.latency import latency_status
from controlplane.slo.older import NOTHING, OlderCounts
from controlplane.slo.overflow import overflow_status
from controlplane.slo.settings import SloSettings
from controlplane.slo.status import SloName, SloState, SloStatus


def evaluate(
    windows: Sequence[EngineWindow],
    at: float,
    settings: SloSettings,
    older: OlderCounts = NOTHING,
) -> tuple[SloStatus, ...]:
    """TTFT, TPOT and overflow, in this order.

    Args:
        windows: non-overlapping windows of one engine, oldest first. Governor tiers need ten
            minutes. Overflow slices need windows that divide the slice.
        at: unix seconds of the evaluation.
        settings: the objectives.
        older: stored intervals before the windows. Longer tiers and error budgets need days, and
            are judged on what there is.
    """
    newest = max((window.end for window in windows if window.frames), default=None)
    until = at if newest is None else min(at, newest)
    statuses = (
        latency_status(SloName.TTFT, settings.ttft, windows, until, settings, older),
        latency_status(SloName.TPOT, settings.tpot, windows, until, settings, older),
        overflow_status(windows, until, settings, older),
    )
    if newest is not None and at - newest <= settings.stale_seconds:
        return statuses
    age = "never" if newest is None else f"{at - newest:.0f} s ago"
    return tuple(
        status.model_copy(
            update={
                "state": SloState.STALE, "calm": False,
                "budget_remaining_ratio": None, "budget": None,
                "message": f"No telemetry to judge by (the last: {age}). {status.message}",
            }
        )
        for status in statuses
    )  # fmt: skip
