"""From everything that was seen to one report and its verdict. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from controlplane.history.window import EngineWindow
from trimtab.demo.clients import ActionView
from trimtab.demo.options import BIAS_FAULTS, LOAD_FAULTS
from trimtab.demo.phase import PhaseFigures
from trimtab.demo.report import (
    RECOVERED,
    ActionReport,
    DemoReport,
    bias_verdict,
    load_verdict,
    quiet_verdict,
)
from trimtab.demo.traffic import Plan

ROUTER_BIAS = "router_bias"


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds since the traffic started; None where it did not happen."""

    injected: float | None
    detected: float | None
    acted: float | None
    recovered: float | None

    def after(self, moment: float | None) -> float | None:
        """A moment in seconds since the injection."""
        if moment is None or self.injected is None:
            return None
        return round(moment - self.injected, 2)


@dataclass(frozen=True, slots=True)
class Seen:
    """What a run has shown."""

    fault: str
    times: Times
    actions: Sequence[ActionView]
    relaxed: bool
    healthy: bool
    before: PhaseFigures
    during: PhaseFigures
    after: PhaseFigures
    frames: dict[str, int]
    whole: EngineWindow | None
    plan: Plan


def conclude(seen: Seen) -> DemoReport:
    """The report of a run; lost frames and failed requests are never a recovery."""
    wanted = ROUTER_BIAS if seen.fault in BIAS_FAULTS else None
    acts = [a for a in seen.actions if not a.relax and (wanted is None or a.knob == wanted)]
    action = _action(acts[0]) if acts else None
    header = None if seen.whole is None else seen.whole.header
    times = seen.times
    return DemoReport(
        verdict=_verdict(seen, action),
        fault=seen.fault,
        injected_at_s=None if times.injected is None else round(times.injected, 2),
        detected_after_s=times.after(times.detected),
        acted_after_s=times.after(times.acted),
        recovered_after_s=times.after(times.recovered),
        action=action,
        before=seen.before,
        during=seen.during,
        after=seen.after,
        frames=seen.frames,
        engine={}
        if header is None
        else {
            "ranks": header.ranks,
            "layers": header.layers,
            "experts": header.experts,
            "top_k": header.top_k,
        },
        traffic={
            "trace": seen.plan.trace,
            "rate_scale": seen.plan.scaling.rate,
            "length_scale": seen.plan.scaling.length,
        },
        actions=[_entry(action) for action in seen.actions],
    )


def _verdict(seen: Seen, action: ActionReport | None) -> str:
    bias_acts = [a for a in seen.actions if a.knob == ROUTER_BIAS]
    if seen.fault in BIAS_FAULTS:
        verdict = bias_verdict(seen.before, seen.during, seen.after, action)
    elif seen.fault in LOAD_FAULTS:
        acted = any(not a.relax for a in seen.actions)
        verdict = load_verdict(seen.after, acted=acted, relaxed=seen.relaxed, healthy=seen.healthy)
    else:
        verdict = quiet_verdict(seen.before, seen.after, len(bias_acts))
    if verdict != RECOVERED:
        return verdict
    errors = seen.before.errors + seen.during.errors + seen.after.errors
    if errors and seen.fault not in LOAD_FAULTS:
        return f"{errors} requests failed"
    if seen.frames["gaps"]:
        return f"{seen.frames['gaps']} telemetry frames were lost"
    return RECOVERED


def _action(action: ActionView) -> ActionReport:
    return ActionReport(
        action.knob or "config", action.before, action.after, action.mode, action.verdict
    )


def _entry(action: ActionView) -> dict[str, object]:
    return {
        "knob": action.knob, "from": action.before, "to": action.after, "relax": action.relax,
        "phase": action.phase, "verify": action.verdict, "reason": action.reason,
    }  # fmt: skip
