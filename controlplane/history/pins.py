"""Pinned incidents: spans that retention skips."""

from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from controlplane.errors import InvalidInputError, NotFoundError
from controlplane.history.models import IncidentPin


@dataclass(frozen=True, slots=True)
class Pin:
    """A pinned span, unix seconds; `engine_id` None is every engine."""

    id: int
    engine_id: str | None
    started: float
    ended: float
    reason: str
    actor: str
    created_at: float


def add(
    session: Session,
    engine_id: str | None,
    started: float,
    ended: float,
    *,
    reason: str,
    actor: str,
    now: float,
) -> int:
    """Pin a span; gives the pin's id.

    Raises:
        InvalidInputError: the span is empty.
    """
    if not started < ended:
        raise InvalidInputError(
            f"a pin from {started} to {ended} is empty", field="ended", value=ended, bound=started
        )
    row = IncidentPin(
        engine_id=engine_id, started=started, ended=ended, reason=reason, actor=actor,
        created_at=now,
    )  # fmt: skip
    session.add(row)
    session.flush()
    return row.id


def remove(session: Session, pin_id: int) -> None:
    """Unpin; retention takes the span the next time.

    Raises:
        NotFoundError: there is no such pin.
    """
    row = session.get(IncidentPin, pin_id)
    if row is None:
        raise NotFoundError(f"no pin has id {pin_id}", field="id", value=pin_id)
    session.delete(row)


def all_pins(session: Session) -> list[Pin]:
    """Every pin, newest first."""
    rows = session.scalars(select(IncidentPin).order_by(IncidentPin.started.desc()))
    return [
        Pin(
            id=row.id, engine_id=row.engine_id, started=row.started, ended=row.ended,
            reason=row.reason, actor=row.actor, created_at=row.created_at,
        )
        for row in rows
    ]  # fmt: skip
