"""Every refusal for lack of a role is an audit event."""

from controlplane.audit import log
from controlplane.audit.chain import Event
from controlplane.auth.access import Denied, DeniedHook
from controlplane.clock import Clock
from controlplane.db.database import Database


def audit_denials(database: Database, clock: Clock) -> DeniedHook:
    """The hook for `Access.on_denied`."""

    def note(denied: Denied) -> None:
        event = Event(
            actor=denied.actor[:128], kind="access.denied",
            subject=f"{denied.method} {denied.path}"[:160],
            detail={"role": denied.role.value, "need": denied.need, "detail": denied.detail},
        )  # fmt: skip
        with database.write() as session:
            log.append(session, event, at=clock.now())

    return note
