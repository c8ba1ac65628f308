"""Did the change do good: rows against limits, and one verdict. Pure.

The detector that asked for a change never judges it: balance can improve while the service gets
worse. If the target SLO was in breach it must improve. If nothing was (a drift caught early), the
live value must be the target and live and what-if shares must agree. Guards (the other SLOs, gate
mass, probe loss) may be no worse than the plan allows; a guard in breach ends the verification at
once. An SLO that was in breach already vetoes nothing that mends a higher one: overflow before
TPOT, TPOT before TTFT. A bias rollback is judged by direct evidence, so thin guards do not hold it
back; a bad bias is never put back to compare. One engine, before against after, is weak evidence
and marked so.
"""

from collections.abc import Sequence
from enum import StrEnum

from pydantic import BaseModel, ConfigDict

from controlplane.policy.decision import Proposal
from controlplane.policy.difference import is_faster, mean_low, ratio_difference, slice_difference
from controlplane.policy.knob import Knob
from controlplane.policy.measurement import Latency, Measurement
from controlplane.policy.policy import VerifyPlan
from controlplane.slo.settings import SloSettings
from controlplane.slo.status import SloName

Control = tuple[Measurement, Measurement]
"""Concurrent engines without the change: before and after."""

_PRECEDENCE = (SloName.OVERFLOW, SloName.TPOT, SloName.TTFT)
"""Quality of answers before speed; the speed of those who are served before the wait of others."""

_SATURATED = 0.5
"""From this bad ratio on the threshold hides a gain: how fast requests are counts as well."""

ROOM = 0.8
"""A guard may reach this part of its limit whatever it was before."""


class Verdict(StrEnum):
    """Failed, and could not tell, are different things."""

    PASS = "pass"  # noqa: S105 (a verdict, not a password)
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"


class VerifyRow(BaseModel):
    """One line of the table: what was held against what."""

    model_config = ConfigDict(frozen=True)

    name: str
    verdict: Verdict
    before: float | None = None
    after: float | None = None
    limit: float | None = None
    n: int = 0
    message: str = ""
    guard: bool = False


class VerifyResult(BaseModel):
    """The verdict with its table.

    `weak`: before against after on one engine. `final`: more data will not change it.
    """

    model_config = ConfigDict(frozen=True)

    verdict: Verdict
    message: str
    rows: tuple[VerifyRow, ...]
    weak: bool = True
    final: bool = False


def verify(
    before: Measurement,
    after: Measurement,
    proposal: Proposal,
    plan: VerifyPlan,
    *,
    slo: SloSettings | None = None,
    control: Control | None = None,
) -> VerifyResult:
    """Judge one change of one engine.

    Args:
        before: from `measurement.measure`, of the time before the change.
        after: likewise, only of the new generation and once it had settled.
        proposal: the change.
        plan: limits and minima.
        slo: the objectives that the measurements were made with; the default ones when absent.
        control: concurrent engines without the change.
    """
    settings = slo or SloSettings()
    target = proposal.target_slo if proposal.target_slo in before.breached else None
    rows = [_applied(after, proposal)]
    if proposal.knob is Knob.ROUTER_BIAS:
        rows.append(_shares_agree(after, plan))
    for name in SloName:
        if name is target:
            rows.append(_improves(name, before, after, plan, control))
        elif target is not None and name in before.breached and _yields(name, target):
            rows.append(_yielding(name, target, before, after))
        else:
            rows.append(_slo_guard(name, before, after, proposal, plan, settings, control))
    rows += _quality_guards(before, after, plan)
    return _conclude(rows, direct=proposal.knob is Knob.ROUTER_BIAS, weak=control is None)


def _yields(name: SloName, target: SloName) -> bool:
    return _PRECEDENCE.index(name) > _PRECEDENCE.index(target)


def _yielding(name: SloName, target: SloName, before: Measurement, after: Measurement) -> VerifyRow:
    old, new = _latency(name, before), _latency(name, after)
    return VerifyRow(
        name=f"{name} yields", verdict=Verdict.PASS, before=old.bad_ratio, after=new.bad_ratio,
        n=new.total, guard=True, message=f"{name} was in breach before, and {target} comes first",
    )  # fmt: skip


def _applied(after: Measurement, proposal: Proposal) -> VerifyRow:
    if proposal.knob is Knob.ROUTER_BIAS:
        value: object = after.live_bias
    else:
        value = None if after.config is None else getattr(after.config, proposal.knob.value)
    if after.config is None:
        verdict, told = Verdict.INCONCLUSIVE, "no frame since the change"
    elif value == proposal.target:
        verdict, told = Verdict.PASS, f"{proposal.knob} is {_short(proposal.target)}"
    else:
        told = f"{proposal.knob} is {_short(value)}, not {_short(proposal.target)}"
        verdict = Verdict.FAIL
    return VerifyRow(name="applied", verdict=verdict, message=told)


def _short(value: object) -> str:
    return str(value)[:12]


def _shares_agree(after: Measurement, plan: VerifyPlan) -> VerifyRow:
    distance = after.share_distance
    if distance is None:
        verdict, told = Verdict.INCONCLUSIVE, "no what-if sample since the change"
    elif distance <= plan.share_distance:
        verdict, told = Verdict.PASS, "live and what-if shares agree"
    else:
        verdict, told = Verdict.FAIL, "live and what-if shares still differ"
    return VerifyRow(
        name="shares agree", verdict=verdict, after=distance, limit=plan.share_distance,
        message=told,
    )  # fmt: skip


def _latency(name: SloName, side: Measurement) -> Latency:
    return side.ttft if name is SloName.TTFT else side.tpot


def _improves(
    name: SloName, before: Measurement, after: Measurement, plan: VerifyPlan,
    control: Control | None,
) -> VerifyRow:  # fmt: skip
    if name is SloName.OVERFLOW:
        return _overflow_improves(before, after, plan)
    old, new = _latency(name, before), _latency(name, after)
    row = VerifyRow(
        name=f"{name} improves", verdict=Verdict.INCONCLUSIVE, before=old.bad_ratio,
        after=new.bad_ratio, limit=old.bad_ratio, n=new.total,
        message=f"{new.total} requests of the new generation; {plan.min_requests} are needed",
    )  # fmt: skip
    if new.total < plan.min_requests or old.total < plan.min_requests:
        return row
    other = None if control is None else (_latency(name, control[0]), _latency(name, control[1]))
    change = ratio_difference(old, new, plan.confidence, other)
    told = f"bad requests changed by {change.value:+.1%} (at most {change.high:+.1%})"
    verdict = _better(change.value, change.high)
    saturated = other is None and old.bad_ratio >= _SATURATED
    if saturated and is_faster(old.cells, new.cells, plan.confidence):
        verdict, told = Verdict.PASS, f"{told}, but requests are faster: {_p99s(old, new)}"
    return row.model_copy(update={"verdict": verdict, "message": told})


def _p99s(old: Latency, new: Latency) -> str:
    seconds = [side.p99 for side in (old, new) if side.p99 is not None]
    return "p99 " + " became ".join(f"{1000 * value:.0f} ms" for value in seconds)


def _overflow_improves(before: Measurement, after: Measurement, plan: VerifyPlan) -> VerifyRow:
    old, new = before.overflow_ratio, after.overflow_ratio
    row = VerifyRow(
        name="overflow improves", verdict=Verdict.INCONCLUSIVE, before=old, after=new, limit=old,
        n=after.assignments,
        message=f"{after.assignments} assignments; {plan.min_assignments} are needed",
    )  # fmt: skip
    if min(before.assignments, after.assignments) < plan.min_assignments:
        return row
    change = slice_difference(before.overflow_slices, after.overflow_slices, plan.confidence)
    high = new - (1.0 - plan.guard_ratio) * old if change is None else change.high
    told = f"overflow changed from {old:.2%} to {new:.2%}"
    return row.model_copy(update={"verdict": _better(new - old, high), "message": told})


def _better(value: float, high: float) -> Verdict:
    if high < 0:
        return Verdict.PASS
    return Verdict.FAIL if value >= 0 else Verdict.INCONCLUSIVE


def _slo_guard(
    name: SloName, before: Measurement, after: Measurement, proposal: Proposal, plan: VerifyPlan,
    settings: SloSettings, control: Control | None,
) -> VerifyRow:  # fmt: skip
    if name is SloName.OVERFLOW:
        return _overflow_guard(before, after, proposal, plan, settings)
    old, new = _latency(name, before), _latency(name, after)
    objective = settings.ttft if name is SloName.TTFT else settings.tpot
    floor = objective.budget if proposal.relax else plan.guard_ratio * objective.budget
    allowed = max(floor, plan.guard_ratio * old.bad_ratio)
    row = VerifyRow(
        name=f"{name} guard", verdict=Verdict.INCONCLUSIVE, before=old.bad_ratio,
        after=new.bad_ratio, limit=old.bad_ratio + allowed, n=new.total, guard=True,
        message=f"{new.total} requests of the new generation; {plan.min_requests} are needed",
    )  # fmt: skip
    if new.total < plan.min_requests:
        return row
    other = None if control is None else (_latency(name, control[0]), _latency(name, control[1]))
    change = ratio_difference(old, new, plan.confidence, other)
    verdict = Verdict.FAIL if old.total and change.low > allowed else Verdict.PASS
    told = f"bad requests changed by {change.value:+.1%} (at least {change.low:+.1%})"
    return row.model_copy(update={"verdict": verdict, "message": told})


def _overflow_guard(
    before: Measurement, after: Measurement, proposal: Proposal, plan: VerifyPlan,
    settings: SloSettings,
) -> VerifyRow:  # fmt: skip
    old, new = before.overflow_ratio, after.overflow_ratio
    threshold = settings.overflow.threshold
    limit = threshold if proposal.relax else max((1.0 + plan.guard_ratio) * old, ROOM * threshold)
    row = VerifyRow(
        name="overflow guard", verdict=Verdict.INCONCLUSIVE, before=old, after=new, limit=limit,
        n=after.assignments, guard=True,
        message=f"{after.assignments} assignments; {plan.min_assignments} are needed",
    )  # fmt: skip
    if after.assignments < plan.min_assignments:
        return row
    low = mean_low(after.overflow_slices, plan.confidence)
    told = f"overflow changed from {old:.2%} to {new:.2%}"
    if new <= limit:
        verdict = Verdict.PASS
    elif low is None:
        verdict, told = Verdict.INCONCLUSIVE, f"{told}; three windows are needed to be sure"
    else:
        verdict = Verdict.FAIL if low > limit else Verdict.PASS
        told += f" (at least {low:.2%})"
    return row.model_copy(update={"verdict": verdict, "message": told})


def _quality_guards(before: Measurement, after: Measurement, plan: VerifyPlan) -> list[VerifyRow]:
    """Rows for gate mass and probe loss, where both sides measured them."""
    rows = []
    kept = before.gate_mass_kept_ratio, after.gate_mass_kept_ratio
    if kept[0] is not None and kept[1] is not None:
        limit = (1.0 - plan.guard_ratio) * kept[0]
        rows.append(_guard("gate mass kept", kept[0], kept[1], limit, ok=kept[1] >= limit))
    loss = before.probe_nll, after.probe_nll
    if loss[0] is not None and loss[1] is not None:
        limit = (1.0 + plan.guard_ratio) * loss[0]
        rows.append(_guard("probe loss", loss[0], loss[1], limit, ok=loss[1] <= limit))
    return rows


def _guard(name: str, before: float, after: float, limit: float, *, ok: bool) -> VerifyRow:
    return VerifyRow(
        name=name, verdict=Verdict.PASS if ok else Verdict.FAIL, before=before, after=after,
        limit=limit, n=1, guard=True, message=f"{before:.4f} became {after:.4f}",
    )  # fmt: skip


def _conclude(rows: Sequence[VerifyRow], *, direct: bool, weak: bool) -> VerifyResult:
    failed = [row for row in rows if row.verdict is Verdict.FAIL]
    unsure = [
        row for row in rows
        if row.verdict is Verdict.INCONCLUSIVE and not (direct and row.guard)
    ]  # fmt: skip
    if failed:
        verdict, final = Verdict.FAIL, any(row.guard for row in failed)
        message = "; ".join(f"{row.name}: {row.message}" for row in failed)
    elif unsure:
        verdict, final = Verdict.INCONCLUSIVE, False
        message = "; ".join(f"{row.name}: {row.message}" for row in unsure)
    else:
        verdict, final = Verdict.PASS, False
        message = "; ".join(f"{row.name}: {row.message}" for row in rows if not row.guard)
    return VerifyResult(
        verdict=verdict, message=message, rows=tuple(rows), weak=weak, final=final
    )  # fmt: skip
