"""All three SLOs of one engine at one moment. Pure: takes windows, gives statuses."""

from collections.abc import Sequence

from controlplane.history.window import EngineWindow
from controlplane.slo.latency import latency_status
from controlplane.slo.overflow import overflow_status
from controlplane.slo.settings import SloSettings
from controlplane.slo.status import SloName, SloState, SloStatus


def evaluate(
    windows: Sequence[EngineWindow], at: float, settings: SloSettings
) -> tuple[SloStatus, ...]:
    """TTFT, TPOT and overflow, in this order.

    Args:
        windows: non-overlapping windows of one engine, oldest first; lengths may differ (fine
            recent ones after coarse old ones). Governor tiers need ten minutes; longer tiers are
            judged on what there is. Overflow slices need windows that divide the slice.
        at: unix seconds of the evaluation.
        settings: the objectives.
    """
    newest = max((window.end for window in windows if window.frames), default=None)
    until = at if newest is None else min(at, newest)
    statuses = (
        latency_status(SloName.TTFT, settings.ttft, windows, until, settings),
        latency_status(SloName.TPOT, settings.tpot, windows, until, settings),
        overflow_status(windows, settings),
    )
    if newest is not None and at - newest <= settings.stale_seconds:
        return statuses
    age = "never" if newest is None else f"{at - newest:.0f} s ago"
    return tuple(
        status.model_copy(
            update={
                "state": SloState.STALE, "calm": False, "budget_remaining_ratio": None,
                "message": f"No telemetry to judge by (the last: {age}). {status.message}",
            }
        )
        for status in statuses
    )  # fmt: skip
