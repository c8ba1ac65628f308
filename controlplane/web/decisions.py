"""Decisions: what the governor said, "why not" included, and what it looked at."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from controlplane.audit import decisions
from controlplane.errors import NotFoundError
from controlplane.web import engine_view
from controlplane.web.access import Governing, Stored, Viewer
from controlplane.web.action_view import evidence_of
from controlplane.web.rendering import page

router = APIRouter(prefix="/decisions", include_in_schema=False)
PAGE = 50
_ACTED = {"yes": True, "no": False}


@router.get("")
def list_page(
    request: Request, viewer: Viewer, governing: Governing, history: Stored,
    engine: Annotated[str, Query(max_length=128)] = "",
    acted: Annotated[str, Query(max_length=8)] = "",
    before: Annotated[float | None, Query(allow_inf_nan=False)] = None,
) -> HTMLResponse:  # fmt: skip
    """Decisions, newest first."""
    with governing.database.read() as session:
        found = decisions.find(
            session, engine_id=engine or None, acted=_ACTED.get(acted), before=before,
            limit=PAGE + 1,
        )  # fmt: skip
    return page(
        request, viewer, "decisions.html", twin="/api/v1/decisions", decisions=found[:PAGE],
        more=found[PAGE - 1].at if len(found) > PAGE else None, engine=engine, acted=acted,
        paging=before is not None,
        engines=engine_view.everyone(governing, history),
    )  # fmt: skip


@router.get("/{decision_id}")
def detail_page(
    decision_id: str, request: Request, viewer: Viewer, governing: Governing
) -> HTMLResponse:
    """One decision with its evidence, gates and alternatives."""
    with governing.database.read() as session:
        row = decisions.get(session, decision_id)
        if row is None:
            raise NotFoundError(f"decision {decision_id!r} does not exist", field="decision_id")
        evidence = evidence_of(row)
    return page(
        request, viewer, "decision.html", twin=f"/api/v1/decisions/{decision_id}",
        decision=row, evidence=evidence,
    )  # fmt: skip
