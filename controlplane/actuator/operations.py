"""What operators do with actions, biases and configs. Every act is audited under their name.

Approvals, aborts and new actions are rows that the leader carries out at its next tick; the page's
ETag travels with a rollback, so a stale page cannot roll back the wrong thing.
"""

import secrets
from dataclasses import replace
from typing import Any

from contract.admin import (
    BiasMarkGood,
    ConfigDocument,
    ConfigState,
    MutationResult,
    WhatIfRequest,
    WhatIfResponse,
)
from contract.headers import OPERATOR_EPOCH, config_etag
from contract.runtime_config import KNOBS, RuntimeConfig
from controlplane.actuator import action_store, holds, making, policy_store
from controlplane.actuator.action import FINAL, Action, Change, Phase
from controlplane.actuator.actuator import transition_event
from controlplane.actuator.engine_admin import EngineAdmin, Mutation
from controlplane.actuator.groups import Groups
from controlplane.actuator.ports import EngineAdmins, Measuring
from controlplane.actuator.readback import set_baseline
from controlplane.audit import log
from controlplane.audit.chain import Event
from controlplane.clock import Clock
from controlplane.db.database import Database
from controlplane.errors import ConflictError, NotFoundError
from controlplane.policy.policy import Policy


class Operations:
    """The acts of an operator."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        admins: EngineAdmins,
        groups: Groups,
        measuring: Measuring,
        default_policy: str,
    ) -> None:
        self._database = database
        self._clock = clock
        self._admins = admins
        self._groups = groups
        self._measuring = measuring
        self._default_policy = default_policy

    def approve(self, action_id: str, *, by: str) -> Action:
        """Let a waiting action go ahead.

        Raises:
            ConflictError: it does not wait, or another action is in flight on its group.
        """
        return self._move(action_id, Phase.PROPOSED, f"approved by {by}", by=by, approved_by=by)

    def reject(self, action_id: str, *, by: str, reason: str) -> Action:
        """Turn a waiting action down; the change is not proposed again for a while."""
        note = f"rejected by {by}: {reason}" if reason else f"rejected by {by}"
        action = self._move(action_id, Phase.REJECTED, note, by=by)
        with self._database.write() as session:
            holds.quarantine(
                session, group=action.group, key=action.change.key, action_id=action_id,
                at=self._clock.now(), first_seconds=action.timing.quarantine,
            )  # fmt: skip
        return action

    def abort(self, action_id: str, *, by: str) -> Action:
        """Stop an open action; what it has applied is taken back (a bias stays as it is).

        Raises:
            ConflictError: it is final already.
        """
        now = self._clock.now()
        with self._database.write() as session:
            action, version = action_store.load(session, action_id)
            if action.phase in FINAL:
                raise ConflictError(
                    f"action {action_id} is {action.phase} already", field="action_id"
                )
            aborted = action.model_copy(update={"abort_by": by})
            action_store.save(session, aborted, version=version, epoch=OPERATOR_EPOCH, at=now)
            event = Event(
                actor=by, kind="action.abort_asked", subject=action_id, engine_id=action.engine_id
            )
            log.append(session, event, at=now)
        return aborted

    def revert(self, action_id: str, *, by: str, reason: str) -> Action:
        """Take a kept action back by a new one, verified like any other.

        Raises:
            ConflictError: it was not kept, or rolled a bias back.
        """
        with self._database.read() as session:
            action, _ = action_store.load(session, action_id)
        if action.phase not in {Phase.SUCCEEDED, Phase.STOPPED} or not action.applied:
            raise ConflictError(
                f"action {action_id} is {action.phase}: there is nothing to take back",
                field="action_id", value=action_id,
            )  # fmt: skip
        return self._open(
            action.engine_id, making.undoing(action), by=by,
            reason=reason or f"takes back {action_id}", revert_of=action_id,
        )  # fmt: skip

    def roll_bias_back(
        self, engine_id: str, *, bias_hash: str, layers: tuple[int, ...] | None, if_match: str,
        by: str, reason: str,
    ) -> Action:  # fmt: skip
        """Make a stored bias version live again.

        Raises:
            ConflictError: the engine moved since the page was made; says what changed.
            NotFoundError: neither the engine nor the control plane has that version.
        """
        admin = self._admins.of(engine_id)
        state, biases = admin.config(), admin.biases()
        self._same_page(admin, state, if_match)
        known = {info.bias_hash for info in biases.versions}
        if bias_hash not in known and bias_hash not in self._measuring.stored_biases():
            raise NotFoundError(
                f"bias version {bias_hash} is stored nowhere", field="bias_hash", value=bias_hash
            )
        change = making.bias_rollback(state, biases.live_hash, bias_hash, layers)
        return self._open(engine_id, change, by=by, reason=reason)

    def roll_config_back(
        self, engine_id: str, *, generation: int, if_match: str, by: str, reason: str
    ) -> Action:
        """Restore the whole config of a stored generation; it becomes the baseline.

        Raises:
            ConflictError: the engine moved since the page was made; says what changed.
            NotFoundError: the engine has no such generation.
        """
        admin = self._admins.of(engine_id)
        state, documents = admin.config(), admin.history().documents
        self._same_page(admin, state, if_match)
        document = _generation(documents, generation, engine_id)
        if document.config == state.document.config:
            raise ConflictError(
                f"engine {engine_id} runs that config already", field="generation", value=generation
            )
        change = making.config_rollback(state, document.config)
        action = self._open(engine_id, change, by=by, reason=reason)
        with self._database.write() as session:
            set_baseline(session, engine_id, document.config)
        return action

    def what_if(self, engine_id: str, request: WhatIfRequest) -> WhatIfResponse:
        """Shadow routing on the engine; traffic is untouched."""
        self._groups.group_of(engine_id)
        return self._admins.of(engine_id).what_if(request)

    def mark_good(self, engine_id: str, *, bias_hash: str | None, by: str) -> MutationResult:
        """Make a bias version (default: the live one) the last known good, and take its shares."""
        admin = self._admins.of(engine_id)
        state, biases = admin.config(), admin.biases()
        wanted = bias_hash or biases.live_hash
        result = admin.send(
            Mutation(
                method="POST", path="router-bias/mark-good", if_match=state.etag,
                body=BiasMarkGood(bias_hash=wanted, actor=by).model_dump(mode="json"),
                key=f"mark-good:{secrets.token_hex(8)}",
            ),
            epoch=OPERATOR_EPOCH,
        )  # fmt: skip
        policy = self._policy(engine_id)
        windows = self._measuring.capture_reference(
            engine_id, wanted, author=by, seconds=policy.detectors.window_seconds
        )
        now = self._clock.now()
        with self._database.write() as session:
            event = Event(
                actor=by, kind="bias.marked_good", subject=str(wanted), engine_id=engine_id,
                value_from=biases.last_known_good, value_to=wanted,
                detail={"reference_windows": windows},
            )  # fmt: skip
            log.append(session, event, at=now)
        return result

    def _move(self, action_id: str, phase: Phase, note: str, *, by: str, **changes: Any) -> Action:
        now = self._clock.now()
        with self._database.write() as session:
            action, version = action_store.load(session, action_id)
            if action.phase is not Phase.AWAITING_APPROVAL:
                raise ConflictError(
                    f"action {action_id} is {action.phase}: it does not wait for approval",
                    field="action_id", value=action_id,
                )  # fmt: skip
            moved = action.enter(phase, now, note, **changes)
            action_store.save(session, moved, version=version, epoch=OPERATOR_EPOCH, at=now)
            log.append(session, replace(transition_event(action, moved), actor=by), at=now)
        return moved

    def _open(
        self, engine_id: str, change: Change, *, by: str, reason: str, revert_of: str = ""
    ) -> Action:
        policy, group = self._policy(engine_id), self._groups.group_of(engine_id)
        now = self._clock.now()
        action = making.by_operator(
            change, policy=policy, engine_id=engine_id, group=group, author=by, reason=reason,
            before=self._measuring.before(engine_id, policy), at=now, revert_of=revert_of,
        )  # fmt: skip
        with self._database.write() as session:
            for freeze in holds.covering(session, engine_id=engine_id, group=group, at=now):
                raise ConflictError(f"frozen by {freeze.author}: {freeze.reason}", field="freeze")
            action_store.insert(session, action, epoch=OPERATOR_EPOCH)
            log.append(session, transition_event(None, action), at=now)
        return action

    def _policy(self, engine_id: str) -> Policy:
        with self._database.read() as session:
            return policy_store.governing(session, engine_id, self._default_policy).policy

    @staticmethod
    def _same_page(admin: EngineAdmin, state: ConfigState, if_match: str) -> None:
        if if_match == state.etag:
            return
        cause, told = state.document.cause, ""
        for document in admin.history().documents:
            if config_etag(document.generation, document.config_hash) == if_match:
                told = f" ({changes_between(document.config, state.document.config)})"
        raise ConflictError(
            f"engine {admin.engine_id} moved on since your page was made: generation "
            f"{state.document.generation} was written by {cause.actor or cause.kind}{told}",
            field="If-Match", value=if_match, bound=state.etag,
        )  # fmt: skip


def changes_between(before: RuntimeConfig, after: RuntimeConfig) -> str:
    """The knobs that differ, as "knob from → to"."""
    pairs = [(knob, getattr(before, knob), getattr(after, knob)) for knob in KNOBS]
    moved = [f"{knob} {old} → {new}" for knob, old, new in pairs if old != new]
    return "; ".join(moved) or "no knob differs"


def _generation(
    documents: tuple[ConfigDocument, ...], generation: int, engine_id: str
) -> ConfigDocument:
    for document in documents:
        if document.generation == generation:
            return document
    raise NotFoundError(
        f"engine {engine_id} has no generation {generation}", field="generation", value=generation
    )
