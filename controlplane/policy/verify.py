"""Did the change do good: rows against limits, and one verdict. Pure.

The detector that asked for a change never judges it: balance can improve while the service gets
worse. If the target SLO was in breach it must improve. If nothing was (a drift caught early), the
live value must be the target and live and what-if shares must agree. Guards (the other SLOs, gate
mass, probe loss) may be no worse than the plan allows; a guard in breach ends the verification at
once. An SLO that was in breach already vetoes nothing that mends a higher one: overflow before
TPOT, TPOT before TTFT. A bias rollback is judged by direct evidence, so unsure guards do not hold
it back; a bad bias is never put back to compare. One engine, before against after, is weak evidence
and marked so.
"""

from collections.abc import Sequence

from controlplane.policy.decision import Proposal
from controlplane.policy.difference import is_faster, ratio_difference, slice_difference
from controlplane.policy.guards import Control, quality_guards, slo_guard, yielding, yields
from controlplane.policy.knob import Knob
from controlplane.policy.measurement import Latency, Measurement
from controlplane.policy.policy import VerifyPlan
from controlplane.policy.verdict import Verdict, VerifyResult, VerifyRow
from controlplane.slo.settings import SloSettings
from controlplane.slo.status import SloName

_SATURATED = 0.5
"""From this bad ratio on the threshold hides a gain: how fast requests are counts as well."""


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
        elif target is not None and name in before.breached and yields(name, target):
            rows.append(yielding(name, target, before, after))
        else:
            rows.append(slo_guard(name, before, after, proposal, plan, settings, control))
    rows += quality_guards(before, after, plan)
    return _conclude(rows, direct=proposal.knob is Knob.ROUTER_BIAS, weak=control is None)


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


def _improves(
    name: SloName, before: Measurement, after: Measurement, plan: VerifyPlan,
    control: Control | None,
) -> VerifyRow:  # fmt: skip
    if name is SloName.OVERFLOW:
        return _overflow_improves(before, after, plan)
    old, new = before.latency(name), after.latency(name)
    row = VerifyRow(
        name=f"{name} improves", verdict=Verdict.INCONCLUSIVE, before=old.bad_ratio,
        after=new.bad_ratio, limit=old.bad_ratio, n=new.total,
        message=f"{new.total} requests of the new generation; {plan.min_requests} are needed",
    )  # fmt: skip
    if new.total < plan.min_requests or old.total < plan.min_requests:
        return row
    other = None if control is None else (control[0].latency(name), control[1].latency(name))
    change = ratio_difference(old, new, plan.confidence, other)
    told = f"bad requests changed by {change.value:+.1%} (at most {change.high:+.1%})"
    verdict = _better(change.value, change.high)
    saturated = other is None and old.bad_ratio >= _SATURATED
    if saturated and is_faster(old.cells, new.cells, plan.confidence):
        verdict, told = Verdict.PASS, f"{told}, but requests are faster: {_p99s(old, new)}"
    return row.model_copy(update={"verdict": verdict, "message": told})


def _p99s(old: Latency, new: Latency) -> str:
    told = [
        f"{'> ' if side.p99_is_more else ''}{1000 * side.p99:.0f} ms"
        for side in (old, new)
        if side.p99 is not None
    ]
    return "p99 " + " became ".join(told)


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
