"""The shell around `reconcile`: reads the world, stores, sends, stores again.

Order of one act: ① the intent is committed (fenced) ② the lease is checked on the monotonic clock
③ the request is sent once ④ its outcome is committed (fenced). Killed after ①, the next pass reads
back and resends the same request or gives it up; killed after ③, it finds the generation by its
cause. A time-out is treated exactly like a kill.
"""

import logging
from dataclasses import dataclass

from sqlalchemy.orm import Session

from contract.admin import ConfigDocument
from controlplane.actuator import action_store, holds, outcome
from controlplane.actuator.action import (
    Action,
    ChangeKind,
    Intent,
    Phase,
    TargetState,
)
from controlplane.actuator.bias_snapshots import payload_of, stored_hashes
from controlplane.actuator.fence import Fence
from controlplane.actuator.ports import EngineAdmins, Evidence, PhaseListener
from controlplane.actuator.reconcile import reconcile
from controlplane.actuator.world import Observation, Telemetry, World
from controlplane.audit import log
from controlplane.audit.chain import Event, digest
from controlplane.clock import Clock
from controlplane.db.database import Database
from controlplane.errors import ConflictError, EngineError, EngineRefusedError, FencedError
from controlplane.policy.verdict import Verdict

LOGGER = logging.getLogger(__name__)
MAX_PASSES = 16
"""Passes over one action in one tick; each makes at most one request."""


@dataclass(frozen=True, slots=True)
class _Loaded:
    action: Action
    version: int


class Actuator:
    """Carries every open action forward."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        admins: EngineAdmins,
        evidence: Evidence,
        listeners: tuple[PhaseListener, ...] = (),
    ) -> None:
        self._database = database
        self._clock = clock
        self._admins = admins
        self._evidence = evidence
        self._listeners = listeners

    def run(self, fence: Fence) -> int:
        """One tick over all open actions; gives how many there were.

        Raises:
            FencedError: this process no longer leads. Nothing is cleaned up.
        """
        with self._database.read() as session:
            ids = action_store.open_ids(session)
        for action_id in ids:
            try:
                self.advance(action_id, fence)
            except ConflictError as error:
                LOGGER.info("action %s: %s; next tick", action_id, error.detail)
        return len(ids)

    def advance(self, action_id: str, fence: Fence) -> Action:
        """Move one action as far as it goes without waiting."""
        loaded = self._load(action_id)
        for _ in range(MAX_PASSES):
            step = reconcile(loaded.action, self._look(loaded.action))
            if step.action == loaded.action:
                break
            loaded = self._store(loaded, step.action, fence)
            if step.send is not None:
                loaded = self._send(loaded, step.send, fence)
                if loaded.action.intent is not None:
                    break  # unknown: the next tick reads back
        return loaded.action

    def _load(self, action_id: str) -> _Loaded:
        with self._database.read() as session:
            return _Loaded(*action_store.load(session, action_id))

    def _store(self, loaded: _Loaded, action: Action, fence: Fence) -> _Loaded:
        now = self._clock.now()
        with self._database.write() as session:
            fence.check(session)
            if action.intent is not None and action.intent != loaded.action.intent:
                _check_not_frozen(session, action, now)
            version = action_store.save(
                session, action, version=loaded.version, epoch=fence.epoch, at=now
            )
            if action.phase is not loaded.action.phase:
                log.append(session, transition_event(loaded.action, action), at=now)
            if _is_failed_change(action) and not _is_failed_change(loaded.action):
                holds.quarantine(
                    session, group=action.group, key=action.change.key,
                    action_id=action.action_id, at=now, first_seconds=action.timing.quarantine,
                )  # fmt: skip
        if action.phase is not loaded.action.phase:
            for listener in self._listeners:
                listener(loaded.action, action)
        return _Loaded(action, version)

    def _send(self, loaded: _Loaded, intent: Intent, fence: Fence) -> _Loaded:
        fence.check_clock()
        admin = self._admins.of(intent.engine_id)
        try:
            blob = self._blob(intent)
            result = admin.send(intent.mutation, epoch=fence.epoch, blob=blob)
        except EngineRefusedError as error:
            if error.answer.type in outcome.FENCED_PROBLEMS:
                raise FencedError(error.detail, field="epoch", value=fence.epoch) from error
            return self._store(loaded, outcome.refused(loaded.action, error.answer), fence)
        except EngineError as error:
            LOGGER.warning("action %s: outcome unknown: %s", loaded.action.action_id, error.detail)
            return loaded
        after = outcome.answered(loaded.action, intent, result, self._clock.now())
        return self._store(loaded, after, fence)

    def _blob(self, intent: Intent) -> bytes | None:
        if intent.mutation.blob is None:
            return None
        with self._database.read() as session:
            return payload_of(session, intent.mutation.blob)

    def _look(self, action: Action) -> World:
        now = self._clock.now()
        with self._database.read() as session:
            freezes = holds.covering(
                session, engine_id=action.engine_id, group=action.group, at=now
            )
            blobs = stored_hashes(session) if _wants_biases(action) else frozenset()
        judging = action.phase in {Phase.SETTLING, Phase.VERIFYING}
        seen: dict[str, Observation] = {}
        heard: dict[str, Telemetry] = {}
        for engine_id in _engines_to_see(action):
            seen[engine_id] = self._observe(action, engine_id)
            if judging:
                heard[engine_id] = self._evidence.telemetry(engine_id, now)
        verification = None
        if action.phase is Phase.VERIFYING:
            verification = self._evidence.verification(action, now)
        return World(
            now=now, frozen=bool(freezes), revert_frozen=any(f.revert for f in freezes),
            observations=seen, telemetry=heard, verification=verification, blobs=blobs,
        )  # fmt: skip

    def _observe(self, action: Action, engine_id: str) -> Observation:
        admin = self._admins.of(engine_id)
        try:
            state = admin.config()
            target = next(t for t in action.targets if t.engine_id == engine_id)
            documents: tuple[ConfigDocument, ...] = (state.document,)
            if action.intent is not None or target.generation not in {
                None, state.document.generation,
            }:  # fmt: skip
                documents = admin.history().documents
            if not _wants_biases(action):
                return Observation(state, documents)
            biases = admin.biases()
        except EngineError as error:
            LOGGER.info("engine %s: %s", engine_id, error.detail)
            return Observation(state=None)
        hashes = frozenset(info.bias_hash for info in biases.versions)
        return Observation(state, documents, hashes, biases.live_hash)


def transition_event(before: Action | None, after: Action) -> Event:
    """The audit event of a phase."""
    change = after.change
    verification = after.verification
    evidence = None if verification is None else digest(verification.model_dump(mode="json"))
    return Event(
        actor=after.created_by, kind=f"action.{after.phase}", subject=after.action_id,
        engine_id=after.engine_id, value_from=_text(change.before), value_to=_text(change.after),
        decision_id=after.decision_id or None, evidence_digest=evidence,
        detail={
            "note": after.note,
            "knob": change.knob.value if change.knob else "config",
            "from_phase": before.phase.value if before else None,
            "generations": {t.engine_id: t.generation for t in after.targets},
        },
    )  # fmt: skip


def _check_not_frozen(session: Session, action: Action, at: float) -> None:
    """The kill switch, looked at in the transaction that lets a request out."""
    freezes = holds.covering(session, engine_id=action.engine_id, group=action.group, at=at)
    if not freezes or (action.phase is Phase.REVERTING and all(row.revert for row in freezes)):
        return
    raise ConflictError(f"frozen by {freezes[0].author}: {freezes[0].reason}", field="freeze")


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _wants_biases(action: Action) -> bool:
    return action.change.kind is ChangeKind.BIAS_ROLLBACK and action.phase is Phase.APPLYING


def _engines_to_see(action: Action) -> list[str]:
    if action.phase in {Phase.AWAITING_APPROVAL, Phase.PROPOSED}:
        return []
    if action.intent is not None:
        return [action.intent.engine_id]
    wanted = TargetState.PENDING if action.phase is Phase.APPLYING else TargetState.APPLIED
    return [target.engine_id for target in action.targets if target.state is wanted]


def _is_failed_change(action: Action) -> bool:
    if action.phase not in {Phase.REVERTED, Phase.ESCALATED} or action.abort_by:
        return False
    return action.verification is not None and action.verification.verdict is not Verdict.PASS
