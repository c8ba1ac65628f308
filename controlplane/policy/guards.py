"""Rows of a verification about what a change was not made for and must not spoil. Pure."""

from scipy.special import ndtri

from controlplane.policy.decision import Proposal
from controlplane.policy.difference import mean_low, ratio_difference, wilson
from controlplane.policy.measurement import Measurement
from controlplane.policy.policy import VerifyPlan
from controlplane.policy.verdict import Verdict, VerifyRow
from controlplane.slo.settings import SloSettings
from controlplane.slo.status import SloName

Control = tuple[Measurement, Measurement]
"""Concurrent engines without the change: before and after."""

_PRECEDENCE = (SloName.OVERFLOW, SloName.TPOT, SloName.TTFT)
"""Quality of answers before speed; the speed of those who are served before the wait of others."""

ROOM = 0.8
"""A guard may reach this part of its limit whatever it was before."""


def yields(name: SloName, target: SloName) -> bool:
    """Whether an SLO in breach has no veto over a mend of `target`."""
    return _PRECEDENCE.index(name) > _PRECEDENCE.index(target)


def yielding(name: SloName, target: SloName, before: Measurement, after: Measurement) -> VerifyRow:
    """The row of an SLO that yields."""
    old, new = before.latency(name), after.latency(name)
    return VerifyRow(
        name=f"{name} yields", verdict=Verdict.PASS, before=old.bad_ratio, after=new.bad_ratio,
        n=new.total, guard=True, message=f"{name} was in breach before, and {target} comes first",
    )  # fmt: skip


def slo_guard(
    name: SloName, before: Measurement, after: Measurement, proposal: Proposal, plan: VerifyPlan,
    settings: SloSettings, control: Control | None,
) -> VerifyRow:  # fmt: skip
    """The row of an SLO that the change was not made for."""
    if name is SloName.OVERFLOW:
        return _overflow_guard(before, after, proposal, plan, settings)
    old, new = before.latency(name), after.latency(name)
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
    other = None if control is None else (control[0].latency(name), control[1].latency(name))
    change = ratio_difference(old, new, plan.confidence, other)
    told = f"bad requests changed by {change.value:+.1%} (at least {change.low:+.1%})"
    verdict = Verdict.PASS
    if old.total and change.low > allowed:
        # Slow requests come in clumps, so a little worse may be chance: only a breach is certain.
        low, _ = wilson(new.bad, new.total, float(ndtri(plan.confidence)))
        in_breach = low >= settings.breach_ratio(objective)
        verdict = Verdict.FAIL if in_breach else Verdict.INCONCLUSIVE
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


def quality_guards(before: Measurement, after: Measurement, plan: VerifyPlan) -> list[VerifyRow]:
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
