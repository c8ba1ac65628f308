"""Actions in the database. Functions take the caller's session: one transaction, one meaning."""

from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from controlplane.actuator.action import IN_FLIGHT, OPEN, Action, Phase, TargetState
from controlplane.actuator.models import ActionRecord
from controlplane.errors import ConflictError, NotFoundError

OPERATOR_WRITE = 0
"""Epoch of a write that an operator, not a leader, has made."""
_ACTIONS = ActionRecord.__table__.c
_OPEN_IDS = (
    select(_ACTIONS.action_id)
    .where(_ACTIONS.phase.in_([phase.value for phase in OPEN]))
    .order_by(_ACTIONS.created_at)
)
"""Asked every second, so built once and of the table."""


def insert(session: Session, action: Action, *, epoch: int) -> None:
    """Store a new action.

    Raises:
        ConflictError: another action is in flight on the group.
    """
    session.add(
        ActionRecord(
            action_id=action.action_id, decision_id=action.decision_id,
            engine_id=action.engine_id, engine_group=action.group,
            change_key=action.change.key, phase=action.phase.value, holds=_holds(action),
            created_at=action.created_at, updated_at=action.created_at, epoch=epoch, version=1,
            body=action.model_dump(mode="json"),
        )
    )  # fmt: skip
    try:
        session.flush()
    except IntegrityError as error:
        raise _in_flight(action) from error


def save(session: Session, action: Action, *, version: int, epoch: int, at: float) -> int:
    """Store the next state of an action; gives the new version.

    Raises:
        ConflictError: someone else wrote it since `version`, or its group is taken.
    """
    row = session.get(ActionRecord, action.action_id, with_for_update=True)
    if row is None or row.version != version:
        raise ConflictError(
            f"action {action.action_id} changed meanwhile",
            field="action_id", value=action.action_id,
        )  # fmt: skip
    row.phase, row.holds = action.phase.value, _holds(action)
    row.updated_at, row.epoch, row.version = at, epoch, version + 1
    row.body = action.model_dump(mode="json")
    try:
        session.flush()
    except IntegrityError as error:
        raise _in_flight(action) from error
    return version + 1


def load(session: Session, action_id: str) -> tuple[Action, int]:
    """An action and its version.

    Raises:
        NotFoundError: there is none of that id.
    """
    row = session.get(ActionRecord, action_id)
    if row is None:
        raise NotFoundError(f"action {action_id!r} does not exist", field="action_id")
    return Action.model_validate(row.body), row.version


def open_ids(session: Session) -> list[str]:
    """Ids of actions that are not final, oldest first."""
    return list(session.connection().scalars(_OPEN_IDS))


def open_of_group(session: Session, group: str) -> list[Action]:
    """Actions of a group that are not final, oldest first."""
    rows = session.scalars(
        select(ActionRecord)
        .where(
            ActionRecord.engine_group == group,
            ActionRecord.phase.in_([phase.value for phase in OPEN]),
        )
        .order_by(ActionRecord.created_at)
    )
    return [Action.model_validate(row.body) for row in rows]


def in_flight(session: Session, group: str) -> str | None:
    """Id of the action that holds a group, if any."""
    return session.scalar(select(ActionRecord.action_id).where(ActionRecord.holds == group))


def find(
    session: Session,
    *,
    engine_id: str | None = None,
    phase: Phase | None = None,
    before: float | None = None,
    since: float | None = None,
    limit: int = 100,
) -> list[Action]:
    """Actions, newest first; `before` and `since` bound the creation time."""
    query = select(ActionRecord).order_by(ActionRecord.created_at.desc()).limit(limit)
    if engine_id is not None:
        query = query.where(ActionRecord.engine_id == engine_id)
    if phase is not None:
        query = query.where(ActionRecord.phase == phase.value)
    if before is not None:
        query = query.where(ActionRecord.created_at < before)
    if since is not None:
        query = query.where(ActionRecord.created_at >= since)
    return [Action.model_validate(row.body) for row in session.scalars(query)]


def ever_applied(action: Action) -> bool:
    """Whether the change reached an engine, whatever became of it."""
    return any(target.applied_at is not None for target in action.targets) or any(
        target.state in {TargetState.APPLIED, TargetState.REVERTED} for target in action.targets
    )


def _holds(action: Action) -> str | None:
    return action.group if action.phase in IN_FLIGHT else None


def _in_flight(action: Action) -> ConflictError:
    return ConflictError(
        f"another action is in flight on group {action.group!r}",
        field="group", value=action.group,
    )  # fmt: skip
