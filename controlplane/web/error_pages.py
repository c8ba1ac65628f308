"""Errors as pages: what happened, the field and its bound, and what to do next."""

from fastapi.responses import HTMLResponse
from starlette.requests import Request

from contract.problem import Problem
from controlplane.auth.access import visitor_of
from controlplane.web.rendering import page

_MACHINE_PATHS = (
    "/api/",
    "/v1/",
    "/static/",
    "/favicon.ico",
    "/healthz",
    "/readyz",
    "/metrics",
    "/live/",
)
_NEXT = {
    401: "Open a login link to go on.",
    403: "Ask someone with that role to do it, or log in with a link for that role. If the page "
         "was open for long, go back, reload it and send the form again.",
    404: "Check the address, or start from the fleet.",
    409: "Nothing was changed. Go back, reload the page, and look at what is there now.",
    422: "Nothing was changed. Go back and correct the field that is named.",
    429: "The control plane is busy. Wait a few seconds and reload.",
    502: "The engine's admin API failed. Check that the engine runs; its page shows the last word.",
    503: "The database cannot be reached. Wait a few seconds and reload; see /readyz.",
}  # fmt: skip
_ELSE = "Nothing was changed as far as this page knows. The control plane's log has the details."


def wants_page(request: Request) -> bool:
    """Whether a person's browser asked, and not a program."""
    path = request.url.path
    if any(path.startswith(prefix) for prefix in _MACHINE_PATHS):
        return False
    return "text/html" in request.headers.get("accept", "")


async def error_page(request: Request, problem: Problem, headers: dict[str, str]) -> HTMLResponse:
    """The page of a problem, with the visitor's own bar; without a login, how to get a link."""
    visitor = await visitor_of(request)
    template = "login.html" if problem.status == 401 else "error.html"
    return page(
        request, visitor, template, status=problem.status, headers=headers, problem=problem,
        todo=_NEXT.get(problem.status, _ELSE), back=_back(request),
    )  # fmt: skip


def _back(request: Request) -> str:
    """The page of this site that the visitor came from, "" for none."""
    origin, referer = str(request.base_url), request.headers.get("referer", "")
    return "/" + referer.removeprefix(origin).lstrip("/\\") if referer.startswith(origin) else ""
