"""What holds the governor back: freezes, pins, and quarantines of changes that failed."""

import secrets

from sqlalchemy import bindparam, select
from sqlalchemy.orm import Session

from controlplane.actuator.models import ChangeQuarantine, FreezeRecord, KnobPin
from controlplane.errors import NotFoundError
from controlplane.policy.knob import Knob

FLEET = "fleet"
MAX_QUARANTINE_SECONDS = 86_400.0
_FREEZES = FreezeRecord.__table__.c
_ANY_FREEZE = (
    select(_FREEZES.freeze_id)
    .where(_FREEZES.lifted_at.is_(None) | (_FREEZES.lifted_at > bindparam("at")))
    .limit(1)
)
"""Asked every second, so built once and of the table."""


def freeze(
    session: Session,
    *,
    scope: str,
    reason: str,
    author: str,
    at: float,
    ttl_seconds: float,
    revert: bool,
    tell_engines: bool,
) -> FreezeRecord:
    """Halt a scope from now on."""
    row = FreezeRecord(
        freeze_id=f"frz-{secrets.token_hex(8)}", scope=scope, reason=reason, author=author,
        created_at=at, expires_at=at + ttl_seconds, lifted_at=None, lifted_by=None, revert=revert,
        engines_told=tell_engines, reached={},
    )  # fmt: skip
    session.add(row)
    session.flush()
    return row


def lift(session: Session, freeze_id: str, *, by: str, at: float) -> FreezeRecord:
    """End a freeze.

    Raises:
        NotFoundError: there is no such freeze, or it has ended.
    """
    row = session.get(FreezeRecord, freeze_id)
    if row is None or row.lifted_at is not None:
        raise NotFoundError(f"freeze {freeze_id!r} is not in force", field="freeze_id")
    row.lifted_at, row.lifted_by = at, by
    return row


def freezes_in_force(session: Session, at: float) -> list[FreezeRecord]:
    """Freezes that hold at `at`, oldest first."""
    query = (
        select(FreezeRecord)
        .where(FreezeRecord.lifted_at.is_(None), FreezeRecord.expires_at > at)
        .order_by(FreezeRecord.created_at)
    )
    return list(session.scalars(query))


def any_freeze_since(session: Session, at: float) -> bool:
    """Whether any freeze is not lifted, or was lifted after `at`."""
    return session.connection().scalar(_ANY_FREEZE, {"at": at}) is not None


def expired_freezes(session: Session, at: float) -> list[FreezeRecord]:
    """Freezes whose time is over, and that nobody has lifted yet."""
    query = select(FreezeRecord).where(
        FreezeRecord.lifted_at.is_(None), FreezeRecord.expires_at <= at
    )
    return list(session.scalars(query))


def covers(scope: str, *, engine_id: str, group: str) -> bool:
    """Whether a freeze's scope includes an engine."""
    return scope in {FLEET, f"group:{group}", f"engine:{engine_id}"}


def covering(session: Session, *, engine_id: str, group: str, at: float) -> list[FreezeRecord]:
    """Freezes in force on an engine."""
    return [
        row for row in freezes_in_force(session, at)
        if covers(row.scope, engine_id=engine_id, group=group)
    ]  # fmt: skip


def pin(
    session: Session,
    *,
    engine_id: str,
    knob: Knob,
    reason: str,
    author: str,
    at: float,
    ttl_seconds: float | None = None,
) -> KnobPin:
    """Give a knob to a human; an earlier pin of it is replaced."""
    row = session.get(KnobPin, (engine_id, knob.value)) or KnobPin(
        engine_id=engine_id, knob=knob.value
    )
    row.reason, row.author, row.created_at = reason, author, at
    row.expires_at = None if ttl_seconds is None else at + ttl_seconds
    session.add(row)
    session.flush()
    return row


def unpin(session: Session, *, engine_id: str, knob: Knob) -> None:
    """Give a knob back to the governor.

    Raises:
        NotFoundError: it is not pinned.
    """
    row = session.get(KnobPin, (engine_id, knob.value))
    if row is None:
        raise NotFoundError(f"{knob.value} of {engine_id!r} is not pinned", field="knob")
    session.delete(row)


def pins(session: Session, at: float, engine_id: str | None = None) -> list[KnobPin]:
    """Pins in force."""
    query = select(KnobPin).order_by(KnobPin.engine_id, KnobPin.knob)
    if engine_id is not None:
        query = query.where(KnobPin.engine_id == engine_id)
    return [row for row in session.scalars(query) if row.expires_at is None or row.expires_at > at]


def quarantine(
    session: Session, *, group: str, key: str, action_id: str, at: float, first_seconds: float
) -> float:
    """Bar a change after a failure, twice as long each time, at most a day; gives its end."""
    row = session.get(ChangeQuarantine, (group, key))
    if row is None:
        row = ChangeQuarantine(engine_group=group, change_key=key, failures=0)
        session.add(row)
    row.failures += 1
    length = min(first_seconds * 2 ** (row.failures - 1), MAX_QUARANTINE_SECONDS)
    row.until, row.action_id = at + length, action_id
    session.flush()
    return row.until


def quarantined(session: Session, group: str, at: float) -> dict[str, float]:
    """Changes that are barred on a group now: key → end."""
    query = select(ChangeQuarantine).where(
        ChangeQuarantine.engine_group == group, ChangeQuarantine.until > at
    )
    return {row.change_key: row.until for row in session.scalars(query)}
