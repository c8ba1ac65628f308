"""The gates that a decision had to pass, from its snapshot: passed, blocked, and by what. Pure."""

from dataclasses import dataclass

from controlplane.audit.models import DecisionRecord
from controlplane.policy.decision import Reason
from controlplane.policy.gates import changes_of
from controlplane.policy.knob import Knob
from controlplane.policy.snapshot import Snapshot
from controlplane.web.text import duration


@dataclass(frozen=True, slots=True)
class Gate:
    """One gate and what it saw."""

    name: str
    passed: bool
    told: str


def gates(snapshot: Snapshot, row: DecisionRecord) -> list[Gate]:
    """Gates of the engine, then those of the knob that the decision was about."""
    found = [*_world(snapshot)]
    knob = _knob(row)
    if knob is not None:
        found += _of_knob(snapshot, knob, str((row.proposal or {}).get("target")))
    if row.reason in {Reason.COOLDOWN, Reason.FLAP_BUDGET, Reason.KNOB_INERT, Reason.GUARD}:
        found.append(Gate(row.reason.replace("_", " "), passed=False, told=row.explanation))
    return found


def _world(snapshot: Snapshot) -> list[Gate]:
    age = snapshot.data_age_seconds
    frozen = snapshot.frozen or (snapshot.config is not None and snapshot.config.frozen)
    return [
        Gate(
            "telemetry is fresh", snapshot.fresh,
            "no frame yet" if age is None else f"newest frame {age:.1f} s old",
        ),
        Gate(
            "engine answers", snapshot.reachable,
            "admin API read back" if snapshot.reachable else "admin API did not answer",
        ),
        Gate("not frozen", not frozen, snapshot.freeze_reason or "no freeze in force"),
        Gate(
            "nothing in flight", snapshot.in_flight is None,
            snapshot.in_flight or f"group {snapshot.group} is free",
        ),
    ]  # fmt: skip


def _of_knob(snapshot: Snapshot, knob: Knob, target: str) -> list[Gate]:
    key = f"{knob}={target}"
    until = snapshot.quarantined.get(key)
    barred = until is not None and until > snapshot.at
    changes = changes_of(snapshot.changes, knob)
    last = "never changed in the last day" if not changes else (
        f"last changed {duration(snapshot.at - changes[-1].at)} before, "
        f"{len(changes)} changes in a day"
    )  # fmt: skip
    return [
        Gate(f"{knob} is live", knob in snapshot.live_knobs, "by the engine's capabilities"),
        Gate(
            f"{knob} is not pinned", knob not in snapshot.pinned,
            "a human owns it" if knob in snapshot.pinned else "no pin in force",
        ),
        Gate(
            "not quarantined", not barred,
            f"failed before; barred for {duration((until or 0.0) - snapshot.at)}" if barred
            else "this change has not failed lately",
        ),
        Gate("pace", passed=True, told=last),
    ]  # fmt: skip


def _knob(row: DecisionRecord) -> Knob | None:
    named = (row.proposal or {}).get("knob")
    return Knob(named) if named else None
