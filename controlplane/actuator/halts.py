"""Freezes as operators use them: a row that stops the governor, and the engines' own freeze.

The row is written first, so the governor stops even when no engine can be reached; the engines are
told at once, side by side, and again by a job until they agree with the rows.
"""

import logging
import secrets
from concurrent.futures import ThreadPoolExecutor

from contract.admin import ConfigState, Freeze
from controlplane.actuator import action_store, holds
from controlplane.actuator.engine_admin import EngineAdmin, Mutation
from controlplane.actuator.groups import Groups
from controlplane.actuator.models import FreezeRecord
from controlplane.actuator.ports import EngineAdmins
from controlplane.actuator.readback import Readback
from controlplane.audit import log
from controlplane.audit.chain import Event
from controlplane.clock import Clock
from controlplane.db.database import Database
from controlplane.errors import EngineError, InvalidInputError

LOGGER = logging.getLogger(__name__)
TELL_THREADS = 16
REMEMBER_SECONDS = 86_400.0
"""An engine that could not be told of a thaw is told when it comes back within a day."""
MARK = "trimtab:"
"""An engine's freeze whose reason starts so is ours to lift; others belong to whoever set them."""


class Halts:
    """Freeze and thaw scopes."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        admins: EngineAdmins,
        groups: Groups,
        readback: Readback,
    ) -> None:
        self._database = database
        self._clock = clock
        self._admins = admins
        self._groups = groups
        self._readback = readback

    def freeze(
        self, *, scope: str, reason: str, author: str, ttl_seconds: float, revert: bool,
        tell_engines: bool, epoch: int,
    ) -> FreezeRecord:  # fmt: skip
        """Halt a scope now; `reached` of the answer says what each engine said.

        Raises:
            InvalidInputError: the scope names no engine.
        """
        if not self._covered(scope):
            raise InvalidInputError(
                f"scope {scope!r} covers no engine", field="scope", value=scope,
                bound="fleet, group:NAME or engine:ID",
            )  # fmt: skip
        now = self._clock.now()
        with self._database.write() as session:
            row = holds.freeze(
                session, scope=scope, reason=reason, author=author, at=now,
                ttl_seconds=ttl_seconds, revert=revert, tell_engines=tell_engines,
            )  # fmt: skip
            event = Event(
                actor=author, kind="freeze.created", subject=row.freeze_id, value_to=scope,
                detail={"reason": reason, "ttl_seconds": ttl_seconds, "revert": revert},
            )  # fmt: skip
            log.append(session, event, at=now)
        self.sync(epoch)
        return self.get(row.freeze_id)

    def lift(self, freeze_id: str, *, by: str, epoch: int) -> FreezeRecord:
        """End a freeze; engines that no other freeze covers are told."""
        now = self._clock.now()
        with self._database.write() as session:
            row = holds.lift(session, freeze_id, by=by, at=now)
            event = Event(actor=by, kind="freeze.lifted", subject=freeze_id, value_from=row.scope)
            log.append(session, event, at=now)
            scope = row.scope
        self.sync(epoch, also=self._covered(scope))
        return self.get(freeze_id)

    def expire(self, epoch: int) -> None:
        """End freezes whose time is over, and make the engines agree with the rows."""
        now = self._clock.now()
        with self._database.read() as session:
            if not holds.any_freeze_since(session, now - REMEMBER_SECONDS):
                return
            over = [row.freeze_id for row in holds.expired_freezes(session, now)]
        for freeze_id in over:
            self.lift(freeze_id, by="expiry", epoch=epoch)
        if not over:
            self.sync(epoch)

    def get(self, freeze_id: str) -> FreezeRecord:
        """One freeze."""
        with self._database.read() as session:
            row = session.get(FreezeRecord, freeze_id)
        if row is None:
            raise InvalidInputError(f"freeze {freeze_id!r} does not exist", field="freeze_id")
        return row

    def sync(self, epoch: int, *, also: set[str] | None = None) -> dict[str, str]:
        """Tell the engines whose own freeze may differ from the rows; gives answers by engine.

        Those are the engines that a freeze covers, those that were frozen by us when last read
        back, and `also`.
        """
        wanted = {
            engine_id: freeze for engine_id, freeze in self._wanted().items()
            if freeze or self._seems_frozen(engine_id) or engine_id in (also or ())
        }  # fmt: skip
        if not wanted:
            return {}
        with ThreadPoolExecutor(TELL_THREADS, "freeze") as pool:
            answers = pool.map(lambda item: self._tell(item[0], item[1], epoch), wanted.items())
            told = dict(zip(wanted, answers, strict=True))
        changed = {engine: answer for engine, answer in told.items() if answer}
        if changed:
            self._note(changed)
        return changed

    def _seems_frozen(self, engine_id: str) -> bool:
        known = self._readback.known(engine_id)
        state = known.state if known is not None else None
        return state is not None and state.frozen and state.freeze_reason.startswith(MARK)

    def _wanted(self) -> dict[str, FreezeRecord | None]:
        """The freeze that each engine should carry; None for none.

        An engine with a revert still to be made is left open until it is done.
        """
        now = self._clock.now()
        wanted: dict[str, FreezeRecord | None] = {}
        for engine_id in self._groups.governed():
            group = self._groups.group_of(engine_id)
            with self._database.read() as session:
                rows = [
                    row for row in holds.covering(session, engine_id=engine_id, group=group, at=now)
                    if row.engines_told
                ]  # fmt: skip
                waits = any(row.revert for row in rows) and action_store.in_flight(session, group)
            wanted[engine_id] = rows[0] if rows and not waits else None
        return wanted

    def _tell(self, engine_id: str, freeze: FreezeRecord | None, epoch: int) -> str:
        """Make one engine agree; "" when it does already."""
        admin = self._admins.of(engine_id)
        try:
            state = admin.config()
            if freeze is not None and not state.frozen:
                body = Freeze(reason=f"{MARK}{freeze.reason}"[:512], actor=freeze.author)
                _send(admin, state, "POST", body, epoch)
                return "frozen"
            if freeze is None and state.frozen and state.freeze_reason.startswith(MARK):
                _send(admin, state, "DELETE", None, epoch)
                return "thawed"
        except EngineError as error:
            LOGGER.warning("engine %s: %s", engine_id, error.detail)
            return f"not reached: {error.detail}" if freeze is not None else ""
        return ""

    def _note(self, changed: dict[str, str]) -> None:
        now = self._clock.now()
        with self._database.write() as session:
            for row in holds.freezes_in_force(session, now):
                covered = self._covered(row.scope)
                mine = {engine: said for engine, said in changed.items() if engine in covered}
                if row.reached != {**row.reached, **mine}:
                    row.reached = {**row.reached, **mine}

    def _covered(self, scope: str) -> set[str]:
        return {
            engine_id for engine_id in self._groups.governed()
            if holds.covers(scope, engine_id=engine_id, group=self._groups.group_of(engine_id))
        }  # fmt: skip


def _send(
    admin: EngineAdmin, state: ConfigState, method: str, body: Freeze | None, epoch: int
) -> None:
    admin.send(
        Mutation(
            method="POST" if method == "POST" else "DELETE", path="freeze",
            body=None if body is None else body.model_dump(mode="json"), if_match=state.etag,
            key=f"freeze:{secrets.token_hex(8)}",
        ),
        epoch=epoch,
    )  # fmt: skip
