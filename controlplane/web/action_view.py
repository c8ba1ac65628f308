"""An action with its evidence: what was seen, the gates, what lost and why, what was done."""

from dataclasses import dataclass
from typing import Any

from controlplane.actuator import action_store
from controlplane.actuator.action import OPEN, Action, Phase
from controlplane.actuator.governance import Governance
from controlplane.audit import decisions, log
from controlplane.audit.models import DecisionRecord
from controlplane.policy.snapshot import Snapshot
from controlplane.web.gates import Gate, gates
from controlplane.web.rendering import fragment

STAGES = (Phase.PROPOSED, Phase.APPLYING, Phase.SETTLING, Phase.VERIFYING, Phase.SUCCEEDED)
MAX_EVENTS = 500


@dataclass(frozen=True, slots=True)
class Evidence:
    """The decision behind an action, and what it looked at."""

    decision: DecisionRecord
    snapshot: Snapshot
    gates: list[Gate]


def detail(governing: Governance, action_id: str) -> dict[str, Any]:
    """What the action page shows.

    Raises:
        NotFoundError: there is no such action.
    """
    with governing.database.read() as session:
        action, _ = action_store.load(session, action_id)
        events = [log.as_dict(e) for e in log.newest(session, subject=action_id, limit=MAX_EVENTS)]
        row = decisions.get(session, action.decision_id) if action.decision_id else None
        evidence = None if row is None else evidence_of(row)
    return {
        "action": action, "events": events[::-1], "evidence": evidence, "stages": _stages(action),
        "can": _can(action),
    }  # fmt: skip


def evidence_of(row: DecisionRecord) -> Evidence:
    """A decision with its snapshot as a value."""
    snapshot = Snapshot.model_validate(decisions.snapshot_of(row))
    return Evidence(decision=row, snapshot=snapshot, gates=gates(snapshot, row))


def live_detail(governing: Governance, action_id: str, visitor: dict[str, Any]) -> str:
    """The part of the page that is renewed while it is open."""
    return fragment("parts/action_detail.html", **detail(governing, action_id), **visitor)


def _stages(action: Action) -> list[tuple[str, str]]:
    """The usual path, each stage done, now, or ahead; another end takes the last place."""
    path = [Phase.AWAITING_APPROVAL] if action.phase is Phase.AWAITING_APPROVAL else []
    path += list(STAGES)
    if action.phase in path:
        at = path.index(action.phase)
        return [
            (stage.value, "done" if i < at or action.is_final else "now" if i == at else "ahead")
            for i, stage in enumerate(path)
        ]
    reached = [stage for stage in STAGES[1:-1] if _reached(action, stage)]
    shown = [Phase.PROPOSED, *reached, action.phase]
    return [(stage.value, "done" if stage is not action.phase else "ended") for stage in shown]


def _reached(action: Action, stage: Phase) -> bool:
    applied = any(target.applied_at is not None for target in action.targets)
    return applied if stage is not Phase.VERIFYING else action.verification is not None


def _can(action: Action) -> dict[str, bool]:
    """Which buttons make sense; whether the visitor may press them is another question."""
    kept = action.phase in {Phase.SUCCEEDED, Phase.STOPPED} and bool(action.applied)
    return {
        "approve": action.phase is Phase.AWAITING_APPROVAL,
        "abort": action.phase in OPEN - {Phase.AWAITING_APPROVAL} and not action.abort_by,
        "revert": kept and action.change.can_revert,
    }  # fmt: skip
