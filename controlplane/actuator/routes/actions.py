"""Actions: list, detail with its audit trail, approve, reject, abort, revert."""

from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import Field

from controlplane.actuator import action_store
from controlplane.actuator.action import Action, Phase
from controlplane.actuator.routes.dependencies import Body, Governing, Operator, Viewer
from controlplane.audit import log

router = APIRouter(prefix="/actions", tags=["actions"])


class ActionDetail(Body):
    """One action and every event about it, oldest first."""

    action: Action
    events: list[dict[str, Any]]


class Why(Body):
    """An operator's reason."""

    reason: str = Field(default="", max_length=512)


@router.get("")
def list_actions(
    _viewer: Viewer,
    governing: Governing,
    engine: str | None = None,
    phase: Phase | None = None,
    before: Annotated[float | None, Query(allow_inf_nan=False)] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
) -> list[Action]:
    """Actions, newest first; page on with `before` = the last one's `created_at`."""
    with governing.database.read() as session:
        return action_store.find(session, engine_id=engine, phase=phase, before=before, limit=limit)


@router.get("/{action_id}")
def get_action(action_id: str, _viewer: Viewer, governing: Governing) -> ActionDetail:
    """One action with its audit trail."""
    with governing.database.read() as session:
        action, _ = action_store.load(session, action_id)
        events = [log.as_dict(e) for e in log.newest(session, subject=action_id, limit=500)]
    return ActionDetail(action=action, events=events[::-1])


@router.post("/{action_id}/approve")
def approve(action_id: str, operator: Operator, governing: Governing) -> Action:
    """Let a waiting action go ahead at the leader's next tick."""
    return governing.operations.approve(action_id, by=operator.name)


@router.post("/{action_id}/reject")
def reject(
    action_id: str, operator: Operator, governing: Governing, why: Why | None = None
) -> Action:
    """Turn a waiting action down."""
    reason = why.reason if why else ""
    return governing.operations.reject(action_id, by=operator.name, reason=reason)


@router.post("/{action_id}/abort")
def abort(action_id: str, operator: Operator, governing: Governing) -> Action:
    """Stop an open action; what it has applied is taken back (a bias stays as it is)."""
    return governing.operations.abort(action_id, by=operator.name)


@router.post("/{action_id}/revert", status_code=201)
def revert(
    action_id: str, operator: Operator, governing: Governing, why: Why | None = None
) -> Action:
    """Take a kept action back by a new one."""
    reason = why.reason if why else ""
    return governing.operations.revert(action_id, by=operator.name, reason=reason)
