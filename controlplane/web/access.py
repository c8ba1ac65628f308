"""Who may see and do: the dependencies of every page, and logging out."""

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from fastapi.responses import RedirectResponse

from controlplane.actuator.governance import Governance, governance_of
from controlplane.auth.access import SESSION_COOKIE, Access, require
from controlplane.auth.engines import EngineRegistry
from controlplane.auth.roles import Principal, Role
from controlplane.history.history import History

Viewer = Annotated[Principal, Depends(require(Role.VIEWER))]
Operator = Annotated[Principal, Depends(require(Role.OPERATOR))]
Admin = Annotated[Principal, Depends(require(Role.ADMIN))]
Governing = Annotated[Governance, Depends(governance_of)]

router = APIRouter()


def _history(request: Request) -> History:
    history: History = request.app.state.history
    return history


def _registry(request: Request) -> EngineRegistry:
    registry: EngineRegistry = request.app.state.engines
    return registry


def _access(request: Request) -> Access:
    access: Access = request.app.state.access
    return access


Stored = Annotated[History, Depends(_history)]
Registry = Annotated[EngineRegistry, Depends(_registry)]
Stores = Annotated[Access, Depends(_access)]


def see_other(location: str) -> RedirectResponse:
    """After a form: go and look at the result."""
    return RedirectResponse(location, status_code=303)


@router.post("/log-out", include_in_schema=False)
def log_out(viewer: Viewer, access: Stores) -> RedirectResponse:
    """End this web session, and show the login page."""
    if viewer.session_id is not None:
        access.sessions.close(viewer.session_id)
    response = see_other("/login")
    response.delete_cookie(SESSION_COOKIE, path="/")
    return response
