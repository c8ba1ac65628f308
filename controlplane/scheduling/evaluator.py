"""One evaluation of one engine: read back, snapshot, decide, store, open the action asked for.

The decision, its action and their audit events are one fenced transaction.
"""

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlalchemy.orm import Session

from contract.burn_windows import Consumer
from controlplane.actuator import action_store, holds, policy_store, requests
from controlplane.actuator.action import Action, Phase
from controlplane.actuator.actuator import transition_event
from controlplane.actuator.engine_admins import HttpEngineAdmins
from controlplane.actuator.fence import Fence
from controlplane.actuator.groups import Groups
from controlplane.actuator.making import from_decision
from controlplane.actuator.policy_store import Governed
from controlplane.actuator.ports import PhaseListener
from controlplane.actuator.readback import KnownEngine, Readback
from controlplane.audit import decisions, log
from controlplane.audit.chain import Event
from controlplane.audit.decisions import DecisionEntry
from controlplane.audit.models import DecisionRecord
from controlplane.db.database import Database
from controlplane.errors import ConflictError, EngineError
from controlplane.policy.decide import decide
from controlplane.policy.decision import Decision, Proposal
from controlplane.policy.knob import Knob, Mode
from controlplane.policy.measurement import Measurement, measure
from controlplane.policy.policy import Policy
from controlplane.policy.snapshot import Snapshot
from controlplane.scheduling.gauges import EvaluationGauges
from controlplane.scheduling.snapshots import Built, SnapshotBuilder
from controlplane.slo.status import SloName, SloState

LOGGER = logging.getLogger(__name__)
TICK = "tick"
PROLONG_SECONDS = 10.0
"""An unchanged decision's row is prolonged at most this often."""


@dataclass(frozen=True, slots=True)
class Evaluated:
    """What came of an evaluation: the stored decision, and the action that it opened, if any."""

    decision_id: str
    decision: Decision
    action_id: str | None


class Evaluator:
    """Evaluates engines; safe to use from any thread for different engines."""

    def __init__(
        self,
        database: Database,
        admins: HttpEngineAdmins,
        readback: Readback,
        builder: SnapshotBuilder,
        groups: Groups,
        default_policy: str,
        gauges: EvaluationGauges,
        listeners: tuple[PhaseListener, ...] = (),
    ) -> None:
        self._database = database
        self._admins = admins
        self._readback = readback
        self._builder = builder
        self._groups = groups
        self._default_policy = default_policy
        self._gauges = gauges
        self._listeners = listeners

    def governed(self, engine_id: str) -> Governed:
        """The policy in force on an engine."""
        with self._database.read() as session:
            return policy_store.governing(session, engine_id, self._default_policy)

    def evaluate(
        self, engine_id: str, fence: Fence, *, origin: str = TICK, policy: Policy | None = None
    ) -> Evaluated | None:
        """Evaluate now; None when another action took the group in the meantime.

        `policy` is the one in force, where the caller has just read it.

        Raises:
            FencedError: this process no longer leads.
        """
        kind = self._groups.kind_of(engine_id)
        known = None if kind.is_observed else self._read_back(engine_id, fence)
        policy = policy or self.governed(engine_id).policy
        group = self._groups.group_of(engine_id)
        members = self._groups.members(group)
        built = self._builder.build(
            engine_id, group, policy, known, engines_in_group=len(members),
            observe_only=kind.why_observed if kind.is_observed else "",
        )  # fmt: skip
        decision = decide(built.snapshot, policy)
        self._gauges.show(built.snapshot)
        action = self._action(decision, built, policy, members)
        try:
            return self._record(decision, built.snapshot, policy, action, origin, fence)
        except ConflictError as error:
            LOGGER.info("engine %s: %s; next tick", engine_id, error.detail)
            return None

    def _read_back(self, engine_id: str, fence: Fence) -> KnownEngine | None:
        known = self._readback.refresh(engine_id, fence)
        if known.capabilities is not None:
            return known
        self._readback.refresh_biases(engine_id, fence)
        return self._readback.known(engine_id)

    def _action(
        self, decision: Decision, built: Built, policy: Policy, members: Sequence[str]
    ) -> Action | None:
        proposal, snapshot = decision.proposal, built.snapshot
        if proposal is None or decision.mode is Mode.OFF:
            return None
        targets = [snapshot.engine_id, *self._others(proposal, snapshot, members)]
        action = from_decision(
            decision, proposal, policy=policy, engine_id=snapshot.engine_id,
            group=snapshot.group, targets=targets, before=self._before(built, policy, targets),
            at=snapshot.at,
        )  # fmt: skip
        if action.phase is Phase.SHADOW_LOGGED:
            action = action.model_copy(update={"note": self._rehearsed(action, snapshot)})
        return action

    def _others(self, proposal: Proposal, snapshot: Snapshot, members: Sequence[str]) -> list[str]:
        """Engines of the group that would follow the canary: unpinned, and not there already."""
        others = []
        for engine_id in members:
            known = self._readback.known(engine_id)
            if engine_id == snapshot.engine_id or known is None or known.state is None:
                continue
            with self._database.read() as session:
                pinned = {row.knob for row in holds.pins(session, snapshot.at, engine_id)}
            if proposal.knob.value in pinned or not known.reachable:
                continue
            value = getattr(known.state.document.config, proposal.knob.value)
            if proposal.knob is Knob.ROUTER_BIAS:
                value = known.biases.live_hash if known.biases else value
            if value == proposal.current:
                others.append(engine_id)
        return others

    def _before(
        self, built: Built, policy: Policy, targets: Sequence[str]
    ) -> dict[str, Measurement]:
        seen = _windows_before(built.snapshot, policy)
        breached = [s.slo for s in built.snapshot.slos if s.state is SloState.BREACHED]
        measured = {
            built.snapshot.engine_id: measure(built.windows[-seen:], policy.slo, breached=breached)
        }
        for engine_id in targets[1:]:
            windows = self._builder.newest_windows(engine_id, policy)
            measured[engine_id] = measure(windows[-seen:], policy.slo)
        return measured

    def _rehearsed(self, action: Action, snapshot: Snapshot) -> str:
        """What the engine says of a change that shadow mode does not make."""
        if snapshot.config is None:
            return "shadow: the engine's config is not known"
        try:
            intent = requests.apply_intent(action, action.targets[0], snapshot.config, snapshot.at)
            self._admins.shadow_of(action.engine_id).send(intent.mutation, epoch=0)
        except (EngineError, ValueError) as error:
            return f"shadow: the engine would not take it: {error}"
        return "shadow: the engine would take it"

    def _record(
        self,
        decision: Decision,
        snapshot: Snapshot,
        policy: Policy,
        action: Action | None,
        origin: str,
        fence: Fence,
    ) -> Evaluated:
        entry = without_evidence(decision, snapshot, policy, origin)
        known = self._known(entry) if action is None else None
        if known is not None:
            return Evaluated(known, decision, None)
        entry = with_evidence(entry, snapshot)
        with self._database.write() as session:
            fence.check(session)
            if action is not None and _is_repeated_shadow(session, entry, action):
                action = None
            if action is not None:
                entry = replace(entry, action_id=action.action_id)
            row, is_new = decisions.record(session, entry)
            if action is not None:
                action = action.model_copy(update={"decision_id": row.decision_id})
                _open(session, action, fence, snapshot.at)
            if is_new and decision.escalate:
                log.append(session, _escalation(row), at=snapshot.at)
        self._tell(decision, snapshot, action, is_new=is_new)
        return Evaluated(row.decision_id, decision, action.action_id if action else None)

    def _known(self, entry: DecisionEntry) -> str | None:
        """The newest decision, when it said the same a moment ago: not worth a write."""
        if entry.origin != TICK:
            return None
        with self._database.read() as session:
            last = decisions.last_said(session, entry.engine_id)
        if last is None or last.signature != entry.signature:
            return None
        return last.decision_id if entry.at - last.last_at < PROLONG_SECONDS else None

    def _tell(
        self, decision: Decision, snapshot: Snapshot, action: Action | None, *, is_new: bool
    ) -> None:
        if is_new:
            self._gauges.count(snapshot.engine_id, decision)
        if action is not None:
            for listener in self._listeners:
                listener(None, action)


def without_evidence(
    decision: Decision, snapshot: Snapshot, policy: Policy, origin: str
) -> DecisionEntry:
    """What a decision says, as JSON values; in most ticks that is nothing new, and it ends here."""
    proposal = decision.proposal
    return DecisionEntry(
        engine_id=snapshot.engine_id, group=snapshot.group, at=snapshot.at,
        policy=decision.policy, policy_version=policy.version, mode=decision.mode.value,
        reason=decision.reason.value, explanation=decision.explanation,
        escalate=decision.escalate,
        proposal=None if proposal is None else proposal.model_dump(mode="json"),
        alternatives=[a.model_dump(mode="json") for a in decision.alternatives],
        evidence={}, snapshot={}, origin=origin,
    )  # fmt: skip


def with_evidence(entry: DecisionEntry, snapshot: Snapshot) -> DecisionEntry:
    """The entry as the audit stores it."""
    stored = snapshot.model_dump(mode="json")
    evidence = {k: stored[k] for k in ("findings", "attribution", "slos", "bias", "load")}
    return replace(entry, evidence=evidence, snapshot=stored)


def _windows_before(snapshot: Snapshot, policy: Policy) -> int:
    """How many newest windows count as "before": a breach fills few of them, calm the rest."""
    rules = policy.detectors
    breached = [slo.slo for slo in snapshot.slos if slo.state is SloState.BREACHED]
    if SloName.OVERFLOW in breached:
        return rules.windows_needed
    if not breached:
        return rules.windows_seen
    short = min(t.short_seconds for t in policy.slo.tiers if t.consumer is Consumer.GOVERNOR)
    return min(rules.windows_seen, math.ceil(short / rules.window_seconds))


def _is_repeated_shadow(session: Session, entry: DecisionEntry, action: Action) -> bool:
    if action.phase is not Phase.SHADOW_LOGGED:
        return False
    last = decisions.last_of(session, entry.engine_id)
    return last is not None and last.signature == entry.signature and last.action_id is not None


def _open(session: Session, action: Action, fence: Fence, at: float) -> None:
    freezes = holds.covering(session, engine_id=action.engine_id, group=action.group, at=at)
    if freezes:
        raise ConflictError(f"frozen by {freezes[0].author}", field="freeze")
    action_store.insert(session, action, epoch=fence.epoch)
    log.append(session, transition_event(None, action), at=at)


def _escalation(row: DecisionRecord) -> Event:
    return Event(
        actor=requests.GOVERNOR, kind="decision.escalated", subject=row.decision_id,
        engine_id=row.engine_id, decision_id=row.decision_id,
        evidence_digest=row.evidence_digest,
        detail={"reason": row.reason, "explanation": row.explanation},
    )  # fmt: skip
