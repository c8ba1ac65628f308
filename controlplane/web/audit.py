"""The audit log: who did what, whether the chain is whole, and all of it to take away."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from controlplane.audit import log
from controlplane.db.base import LARGEST_INTEGER
from controlplane.web.access import Governing, Viewer
from controlplane.web.rendering import fragment, page

router = APIRouter(prefix="/audit", include_in_schema=False)
PAGE = 100
KINDS = (
    "action", "decision", "config", "bias", "policy", "freeze", "pin", "access", "token", "login",
    "engine",
)  # fmt: skip
Text = Annotated[str, Query(max_length=160)]


@router.get("")
def audit_page(
    request: Request, viewer: Viewer, governing: Governing, engine: Text = "", kind: Text = "",
    subject: Text = "", before: Annotated[int | None, Query(le=LARGEST_INTEGER)] = None,
) -> HTMLResponse:  # fmt: skip
    """Events, newest first."""
    with governing.database.read() as session:
        rows = log.newest(
            session, before=before, limit=PAGE + 1, subject=subject or None,
            engine_id=engine or None, kind=kind or None,
        )  # fmt: skip
        events = [log.as_dict(row) for row in rows]
    return page(
        request, viewer, "audit.html", twin="/api/v1/audit", events=events[:PAGE],
        more=events[PAGE - 1]["sequence"] if len(events) > PAGE else None, engine=engine,
        kind=kind, subject=subject, kinds=KINDS, engines=governing.groups.everyone(),
    )  # fmt: skip


@router.get("/verify")
def verify(_viewer: Viewer, governing: Governing) -> HTMLResponse:
    """Walk the whole chain: a piece of the page."""
    with governing.database.read() as session:
        check = log.verify(session)
    return HTMLResponse(fragment("parts/chain.html", check=check))
