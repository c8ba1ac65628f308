"""Actions: the list, one with its evidence, and what an operator does about it."""

from typing import Annotated

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse

from controlplane.actuator import action_store
from controlplane.actuator.action import Phase
from controlplane.web import action_view
from controlplane.web.access import Governing, Operator, Viewer, see_other
from controlplane.web.rendering import page

router = APIRouter(include_in_schema=False)
PAGE = 50
Reason = Annotated[str, Form(max_length=512)]
Optional = Annotated[str, Query(max_length=128)]


@router.get("/actions")
def list_page(
    request: Request, viewer: Viewer, governing: Governing, engine: Optional = "",
    phase: Optional = "",
    before: Annotated[float | None, Query(allow_inf_nan=False)] = None,
) -> HTMLResponse:  # fmt: skip
    """Actions, newest first."""
    wanted = Phase(phase) if phase in set(Phase) else None
    with governing.database.read() as session:
        found = action_store.find(
            session, engine_id=engine or None, phase=wanted, before=before, limit=PAGE + 1
        )
    return page(
        request, viewer, "actions.html", twin="/api/v1/actions", actions=found[:PAGE],
        more=found[PAGE - 1].created_at if len(found) > PAGE else None, engine=engine,
        phase=phase, paging=before is not None, phases=list(Phase),
        engines=governing.groups.everyone(),
    )  # fmt: skip


@router.get("/actions/{action_id}")
def detail_page(
    action_id: str, request: Request, viewer: Viewer, governing: Governing
) -> HTMLResponse:
    """One action with its evidence."""
    return page(
        request, viewer, "action.html", twin=f"/api/v1/actions/{action_id}",
        **action_view.detail(governing, action_id),
    )  # fmt: skip


@router.post("/actions/{action_id}/approve")
def approve(action_id: str, operator: Operator, governing: Governing) -> RedirectResponse:
    """Let a waiting action go ahead."""
    governing.operations.approve(action_id, by=operator.name)
    return see_other(f"/actions/{action_id}")


@router.post("/actions/{action_id}/reject")
def reject(
    action_id: str, operator: Operator, governing: Governing, reason: Reason = ""
) -> RedirectResponse:
    """Turn a waiting action down."""
    governing.operations.reject(action_id, by=operator.name, reason=reason)
    return see_other(f"/actions/{action_id}")


@router.post("/actions/{action_id}/abort")
def abort(action_id: str, operator: Operator, governing: Governing) -> RedirectResponse:
    """Stop an open action."""
    governing.operations.abort(action_id, by=operator.name)
    return see_other(f"/actions/{action_id}")


@router.post("/actions/{action_id}/revert")
def revert(
    action_id: str, operator: Operator, governing: Governing, reason: Reason = ""
) -> RedirectResponse:
    """Take a kept action back by a new one, and look at that."""
    made = governing.operations.revert(action_id, by=operator.name, reason=reason)
    return see_other(f"/actions/{made.action_id}")
