"""Every change of access is an audit event: tokens, login links, sessions, engines."""

from sqlalchemy.orm import Session

from controlplane.audit import log
from controlplane.audit.chain import Event
from controlplane.auth.changes import AccessChange


def record(session: Session, change: AccessChange) -> None:
    """The `Recorder` of the access stores: the event is committed with the change or not at all."""
    event = Event(
        actor=change.actor[:128], kind=change.kind.value, subject=change.subject[:160],
        engine_id=change.engine_id, value_from=change.value_from, value_to=change.value_to,
        detail=dict(change.detail),
    )  # fmt: skip
    log.append(session, event, at=change.at)
