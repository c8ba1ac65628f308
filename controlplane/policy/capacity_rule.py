"""The capacity rule: the smallest rung whose measured overflow holds the target. A look-up.

The engine counts overflow at every rung, so choosing C needs no trial. Steps stay bounded: one rung
up, two above 15 % overflow, one down. Where neighbouring rungs make the same number of slots, or
where overflow is only counted and not applied, moving C changes nothing: the knob is inert.
"""

from contract.runtime_config import CAPACITY_LADDER, OverflowMode, RuntimeConfig
from controlplane.policy.candidate import Candidate
from controlplane.policy.decision import Reason
from controlplane.policy.knob import Knob
from controlplane.policy.policy import CapacityRules
from controlplane.policy.snapshot import LoadFacts, Snapshot
from controlplane.slo.status import SloName, SloStatus

NO_GAIN = 0.98
"""A rung that keeps more than this part of the overflow gains nothing."""
SAME_OVERFLOW = 0.005
"""Ratios closer than this are told as one."""


def is_inert(load: LoadFacts, current: str, target: str) -> bool:
    """Whether moving from `current` up to `target` would change nothing."""
    before, after = load.overflow_at_rung.get(current), load.overflow_at_rung.get(target)
    if before is not None and after is not None:
        return after >= NO_GAIN * before
    slots = load.slots_at_rung
    return current in slots and target in slots and slots[current] == slots[target]


def raise_capacity(
    snapshot: Snapshot, config: RuntimeConfig, rules: CapacityRules, overflow: SloStatus
) -> Candidate:
    """C up because overflow is in breach."""
    load, current = snapshot.load, config.capacity_factor
    if current is None:
        return _up(overflow, None, None, Reason.KNOB_INERT, "The engine serves without capacity.")
    if config.overflow_mode is OverflowMode.VIRTUAL:
        return _up(
            overflow, current, None, Reason.KNOB_INERT,
            "Overflow is only counted on this engine, not applied: another C would move the "
            "yardstick, not the service.",
        )  # fmt: skip
    rungs = [r for r in CAPACITY_LADDER if _index(current) < _index(r) <= _index(rules.highest)]
    if not rungs:
        return _up(
            overflow, current, None, Reason.AT_BOUND,
            f"Overflow is {_percent(overflow.value)} at C = {current}, the highest rung allowed.",
        )  # fmt: skip
    # The value may still be of steps before C last changed; this is of the same steps at this C.
    here = load.overflow_at_rung.get(current, overflow.value or 0.0)
    steps = 2 if here > rules.two_rungs_above else 1
    reachable = rungs[:steps]
    holding = [r for r in reachable if load.overflow_at_rung.get(r, 1.0) <= rules.target_ratio]
    target = holding[0] if holding else reachable[-1]
    if is_inert(load, current, target):
        return _up(
            overflow, current, target, Reason.KNOB_INERT,
            f"C = {target} would not lower overflow: an expert has {_slots(load, target)} slots a "
            f"step there against {_slots(load, current)} now.",
        )  # fmt: skip
    return _up(
        overflow, current, target, None,
        f"Overflow is {_percent(overflow.value)} (limit {overflow.threshold:.0%}); "
        f"{_throughout(overflow.value, here, current)}at C = {target} "
        f"the same steps would have had {_percent(load.overflow_at_rung.get(target))}.",
    )  # fmt: skip


def _throughout(value: float | None, here: float, current: str) -> str:
    """What steps had at this C, where the value was measured under others too."""
    if value is None or abs(here - value) < SAME_OVERFLOW:
        return ""
    return f"at C = {current} throughout they would have had {_percent(here)}, "


def lower_capacity(
    snapshot: Snapshot, config: RuntimeConfig, rules: CapacityRules
) -> Candidate | None:
    """C one rung down to the baseline, when the lower rung holds the deadband; else None."""
    current, baseline = config.capacity_factor, snapshot.baseline.get(Knob.CAPACITY_FACTOR)
    if current is None or not isinstance(baseline, str) or _index(current) <= _index(baseline):
        return None
    target = CAPACITY_LADDER[_index(current) - 1]
    if _index(target) < _index(rules.lowest):
        return None
    peak = snapshot.load.overflow_at_rung_peak or snapshot.load.overflow_at_rung
    expected = peak.get(target)
    blocked = expected is None or expected > rules.deadband_ratio
    return Candidate(
        knob=Knob.CAPACITY_FACTOR, current=current, target=target, direction=-1,
        reason=Reason.RELAX, relax=True, blocked=Reason.GUARD if blocked else None,
        explanation=(
            f"C = {target} would have had up to {_percent(expected)} overflow in the calm time; "
            f"{'above' if blocked else 'within'} the {rules.deadband_ratio:.0%} that a step down "
            f"towards the baseline {baseline} needs."
        ),
        predicted=f"overflow-at-rung, measured: {_percent(expected)}",
    )  # fmt: skip


def _up(
    overflow: SloStatus, current: str | None, target: str | None, blocked: Reason | None, told: str
) -> Candidate:
    return Candidate(
        knob=Knob.CAPACITY_FACTOR, current=current, target=target, direction=1,
        reason=Reason.OVERFLOW_BREACH, target_slo=SloName.OVERFLOW, blocked=blocked,
        explanation=told, predicted=f"overflow {_percent(overflow.value)} now; {told}",
    )  # fmt: skip


def _index(rung: str) -> int:
    return CAPACITY_LADDER.index(rung)


def _slots(load: LoadFacts, rung: str) -> str:
    return str(load.slots_at_rung.get(rung, "an unknown number of"))


def _percent(ratio: float | None) -> str:
    return "an unknown share" if ratio is None else f"{ratio:.1%}"
