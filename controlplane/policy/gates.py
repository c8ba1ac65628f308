"""What stands between a wish and an act: mode, capability, pins, quarantine, cooldown, flapping."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from controlplane.policy.candidate import Candidate
from controlplane.policy.decision import Reason
from controlplane.policy.knob import Knob, Mode
from controlplane.policy.policy import KnobRules, Policy
from controlplane.policy.snapshot import KnobChange, Snapshot

HOUR = 3600.0
DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class Hold:
    """A reason not to act, with a plain sentence."""

    reason: Reason
    explanation: str


def _told(age: float | None) -> str:
    if age is None:
        return "there is no telemetry yet"
    if age < 0:
        return f"the newest frame is {-age:.0f} s in the future, so the engine's clock is ahead"
    return f"the newest frame is {age:.0f} s old"


def world_hold(snapshot: Snapshot) -> Hold | None:
    """Reasons that hold everything: observe-only, no data, no engine, a freeze, an action."""
    state = snapshot.config
    if snapshot.observe_only:
        return Hold(Reason.OBSERVE_ONLY, f"Holding: {snapshot.observe_only}.")
    if not snapshot.fresh:
        age = snapshot.data_age_seconds
        return Hold(Reason.STALE, f"Holding: {_told(age)}.")
    if not snapshot.reachable or state is None:
        return Hold(Reason.UNREACHABLE, "Holding: the engine's admin API does not answer.")
    if snapshot.frozen or state.frozen:
        why = snapshot.freeze_reason or state.freeze_reason or "no reason given"
        return Hold(Reason.FROZEN, f"Holding: frozen ({why}).")
    if snapshot.in_flight is not None:
        return Hold(
            Reason.IN_FLIGHT, f"Holding: action {snapshot.in_flight} of this group is not final."
        )
    return None


def candidate_hold(candidate: Candidate, snapshot: Snapshot, policy: Policy) -> Hold | None:
    """The first reason that blocks this one change, or None."""
    knob = candidate.knob
    rules = policy.knobs.get(knob)
    if rules is None or rules.mode is Mode.OFF:
        return Hold(Reason.MODE_OFF, f"{knob} is off in policy {policy.name}.")
    if knob not in snapshot.live_knobs:
        return Hold(Reason.KNOB_ABSENT, f"This engine cannot change {knob} live.")
    if candidate.blocked is not None:
        return Hold(candidate.blocked, candidate.explanation)
    if knob in snapshot.pinned:
        return Hold(Reason.PINNED, f"{knob} is pinned: a human owns it.")
    until = snapshot.quarantined.get(candidate.key)
    if until is not None and until > snapshot.at:
        return Hold(
            Reason.QUARANTINED,
            f"{candidate.key} failed before and is quarantined for {until - snapshot.at:.0f} s.",
        )
    if candidate.key in snapshot.awaiting_approval:
        return Hold(Reason.AWAITING_APPROVAL, f"{candidate.key} waits for a human's approval.")
    return _pace_hold(candidate, rules, snapshot)


def _pace_hold(candidate: Candidate, rules: KnobRules, snapshot: Snapshot) -> Hold | None:
    changes = changes_of(snapshot.changes, candidate.knob)
    wait = rules.relax_cooldown_seconds if candidate.relax else rules.act_cooldown_seconds
    if changes and snapshot.at - changes[-1].at < wait:
        left = wait - (snapshot.at - changes[-1].at)
        return Hold(Reason.COOLDOWN, f"{candidate.knob} cools down for another {left:.0f} s.")
    spent = flap_budget_spent(changes, candidate.direction, rules, snapshot.at)
    return None if spent is None else Hold(Reason.FLAP_BUDGET, f"{candidate.knob}: {spent}.")


def changes_of(changes: Sequence[KnobChange], knob: Knob) -> list[KnobChange]:
    """The changes of one knob, oldest first."""
    return sorted((c for c in changes if c.knob is knob), key=lambda change: change.at)


def flap_budget_spent(
    changes: Sequence[KnobChange], direction: int, rules: KnobRules, at: float
) -> str | None:
    """What of the flap budget one more change in `direction` would break, or None."""
    hour = [change for change in changes if at - change.at < HOUR]
    day = [change for change in changes if at - change.at < DAY]
    if len(hour) + 1 > rules.changes_per_hour:
        return f"{len(hour)} changes in an hour are all that the flap budget allows"
    if len(day) + 1 > rules.changes_per_day:
        return f"{len(day)} changes in a day are all that the flap budget allows"
    signs = [change.direction for change in hour if change.direction] + [direction]
    turns = sum(1 for a, b in pairwise(signs) if a * b < 0)
    if turns > rules.reversals_per_hour:
        return f"turning round once more would be {turns} reversals in an hour"
    return None
