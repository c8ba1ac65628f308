"""Who a request comes from, and whether that is enough: the FastAPI dependency `require(role)`.

A bearer token, or the session cookie of the web UI. A cookie comes along with any request that a
browser makes, so a request that changes something must repeat the session's CSRF token in the
`X-CSRF-Token` header or in the form field `csrf_token`.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from controlplane.auth.roles import Principal, Role, allows
from controlplane.auth.secret import same
from controlplane.auth.sessions import SessionStore
from controlplane.auth.tokens import TokenStore
from controlplane.errors import PermissionDeniedError, TrimtabError, UnauthenticatedError

SESSION_COOKIE = "trimtab_session"
CSRF_HEADER = "X-CSRF-Token"
CSRF_FIELD = "csrf_token"
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")


@dataclass(frozen=True, slots=True)
class Denied:
    """A request that was refused with 403, for the audit log."""

    actor: str
    role: Role
    need: str
    method: str
    path: str
    detail: str


DeniedHook = Callable[[Denied], None]


@dataclass
class Access:
    """The stores that requests are checked against; lives in `app.state.access`.

    Attributes:
        secure_cookies: whether the session cookie is for TLS only.
        on_denied: called in a worker thread for every 403; the audit log hooks in here.
    """

    tokens: TokenStore
    sessions: SessionStore
    secure_cookies: bool = False
    on_denied: list[DeniedHook] = field(default_factory=list)

    async def identify(self, request: Request) -> Principal | None:
        """Who a request comes from; None when it carries no valid token or cookie.

        Raises:
            PermissionDeniedError: a cookie without the CSRF token tries to change something.
        """
        bearer = bearer_of(request)
        if bearer is not None:
            known = self.tokens.remembered(bearer)
            return known or await run_in_threadpool(self.tokens.authenticate, bearer)
        cookie = request.cookies.get(SESSION_COOKIE)
        if cookie is None:
            return None
        found = await run_in_threadpool(self.sessions.authenticate, cookie)
        if found is None:
            return None
        principal, csrf_token = found
        request.state.csrf_token = csrf_token
        if request.method not in _SAFE_METHODS:
            sent = await _sent_csrf(request)
            if sent is None or not same(sent, csrf_token):
                raise await self.deny(
                    request, principal, "csrf", f"{CSRF_HEADER} or {CSRF_FIELD} does not match"
                )
        return principal

    async def deny(
        self, request: Request, principal: Principal, need: str, detail: str
    ) -> PermissionDeniedError:
        """Tell every hook of a refusal, and give the error to raise."""
        denied = Denied(
            actor=principal.name, role=principal.role, need=need, method=request.method,
            path=request.url.path, detail=detail,
        )  # fmt: skip
        for hook in self.on_denied:
            await run_in_threadpool(hook, denied)
        return PermissionDeniedError(detail, field="role", value=str(principal.role), bound=need)


def require(role: Role) -> Callable[[Request], Awaitable[Principal]]:
    """A dependency that gives the principal, or answers 401 or 403.

    Use it as `principal: Annotated[Principal, Depends(require(Role.OPERATOR))]`.
    """

    async def check(request: Request) -> Principal:
        access: Access = request.app.state.access
        principal = await access.identify(request)
        if principal is None:
            raise UnauthenticatedError("send a valid bearer token, or open a login link")
        request.state.principal = principal
        if not allows(principal.role, role):
            raise await access.deny(
                request, principal, str(role),
                f"{principal.name!r} has role {principal.role}, this needs {role}",
            )  # fmt: skip
        return principal

    return check


async def visitor_of(request: Request) -> Principal | None:
    """Who a request comes from, as far as is known, for a page that says what went wrong.

    A path that nobody serves has asked nobody: then the cookie is looked up, if that can be done.
    """
    known: Principal | None = getattr(request.state, "principal", None)
    if known is not None or request.method not in _SAFE_METHODS:
        return known
    access: Access = request.app.state.access
    try:
        return await access.identify(request)
    except TrimtabError:
        return None


def csrf_token(request: Request) -> str:
    """The token that a page's forms must repeat; empty for a bearer."""
    return str(getattr(request.state, "csrf_token", ""))


def bearer_of(request: Request) -> str | None:
    """The bearer token that a request carries; None where there is none, or an empty one."""
    scheme, _, value = request.headers.get("authorization", "").partition(" ")
    return value.strip() if scheme.lower() == "bearer" and value.strip() else None


async def _sent_csrf(request: Request) -> str | None:
    header = request.headers.get(CSRF_HEADER)
    if header is not None:
        return header
    if request.headers.get("content-type", "").split(";")[0] in _FORMS:
        value = (await request.form()).get(CSRF_FIELD)
        return value if isinstance(value, str) else None
    return None
