"""Login links, logout, tokens and the engine registry over HTTP."""

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import HTMLResponse
from pydantic import BaseModel, ConfigDict, Field, SecretStr

from contract.access_name import ACCESS_NAME_PATTERN
from controlplane.auth.access import SESSION_COOKIE, Access, require
from controlplane.auth.engines import EngineRegistry, RegisteredEngine
from controlplane.auth.roles import Principal, Role
from controlplane.auth.tokens import TokenInfo
from controlplane.engine_address import EngineId, EngineToken, EngineUrl
from controlplane.errors import UnauthenticatedError

LOGIN_PATH = "/login"
_OPENED = (
    '<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url=/">'
    '<title>Trimtab</title><p>You are logged in. <a href="/">Go on</a>.</p>'
)


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class NewToken(_Body):
    """A token to make. `engine_id` is needed for role engine, and for no other."""

    name: str = Field(json_schema_extra={"pattern": ACCESS_NAME_PATTERN})
    role: Role
    engine_id: EngineId | None = None
    lifetime_seconds: float | None = Field(default=None, gt=0)


class MadeToken(_Body):
    """The secret of a new token: shown here, and never again."""

    name: str
    token: str


class NewLink(_Body):
    """A login link to make."""

    name: str = Field(json_schema_extra={"pattern": ACCESS_NAME_PATTERN})
    role: Role


class MadeLink(_Body):
    """Path of a login link that works once."""

    path: str


class WhoAmI(_Body):
    """Who the request came from."""

    name: str
    role: Role
    engine_id: str | None


class NewEngine(_Body):
    """An engine to govern."""

    engine_id: EngineId
    url: EngineUrl
    group: str = Field(default="", max_length=128)
    admin_token: EngineToken = SecretStr("")


Admin = Annotated[Principal, Depends(require(Role.ADMIN))]
Viewer = Annotated[Principal, Depends(require(Role.VIEWER))]


def _access(request: Request) -> Access:
    access: Access = request.app.state.access
    return access


def _engines(request: Request) -> EngineRegistry:
    engines: EngineRegistry = request.app.state.engines
    return engines


Stores = Annotated[Access, Depends(_access)]
Engines = Annotated[EngineRegistry, Depends(_engines)]

router = APIRouter(tags=["access"])


@router.get(LOGIN_PATH, include_in_schema=False)
def log_in(access: Stores, link: str = "") -> HTMLResponse:
    """Open a web session with a one-time link."""
    if not link:
        raise UnauthenticatedError("a login link is needed")
    # A page that refreshes itself instead of a redirect: browsers withhold a strict cookie
    # from a redirect that another site's link began.
    opened = access.sessions.redeem(link)
    response = HTMLResponse(_OPENED, headers={"Cache-Control": "no-store"})
    response.set_cookie(
        SESSION_COOKIE, opened.cookie, max_age=opened.lifetime_seconds, httponly=True,
        samesite="strict", secure=access.secure_cookies, path="/",
    )  # fmt: skip
    return response


@router.post("/logout", status_code=204)
def log_out(principal: Viewer, access: Stores) -> Response:
    """End this web session."""
    if principal.session_id is None:
        raise UnauthenticatedError("only a web session logs out; revoke a token instead")
    access.sessions.close(principal.session_id)
    response = Response(status_code=204)
    response.delete_cookie(SESSION_COOKIE, path="/")
    return response


@router.get("/api/v1/whoami")
async def who_am_i(request: Request, access: Stores) -> WhoAmI:
    """Name and role of the caller."""
    principal = await access.identify(request)
    if principal is None:
        raise UnauthenticatedError("send a valid bearer token, or open a login link")
    return WhoAmI(name=principal.name, role=principal.role, engine_id=principal.engine_id)


@router.post("/api/v1/login-links", status_code=201)
def make_link(body: NewLink, access: Stores, admin: Admin) -> MadeLink:
    """Make a one-time login link."""
    secret = access.sessions.new_link(body.name, body.role, by=admin.name)
    return MadeLink(path=f"{LOGIN_PATH}?link={secret}")


@router.get("/api/v1/tokens")
def list_tokens(access: Stores, _admin: Admin) -> list[TokenInfo]:
    """All tokens, without their secrets."""
    return access.tokens.all()


@router.post("/api/v1/tokens", status_code=201)
def make_token(body: NewToken, access: Stores, admin: Admin) -> MadeToken:
    """Make a token; the answer is the only time that its secret is shown."""
    secret = access.tokens.create(
        body.name, body.role, by=admin.name, engine_id=body.engine_id,
        lifetime_seconds=body.lifetime_seconds,
    )  # fmt: skip
    return MadeToken(name=body.name, token=secret)


@router.delete("/api/v1/tokens/{name:path}", status_code=204)
def revoke_token(name: str, access: Stores, admin: Admin) -> Response:
    """Make a token useless. A path, for names from before a slash was refused."""
    access.tokens.revoke(name, by=admin.name)
    return Response(status_code=204)


@router.post("/api/v1/engines", status_code=201)
def add_engine(body: NewEngine, engines: Engines, admin: Admin) -> Response:
    """Govern an engine that the settings do not name."""
    engines.add(
        RegisteredEngine(body.engine_id, body.url, body.group, body.admin_token.get_secret_value()),
        by=admin.name,
    )  # fmt: skip
    return Response(status_code=201)


@router.delete("/api/v1/engines/{engine_id}", status_code=204)
def remove_engine(engine_id: str, engines: Engines, admin: Admin) -> Response:
    """Stop governing an engine; its history stays."""
    engines.remove(engine_id, by=admin.name)
    return Response(status_code=204)
