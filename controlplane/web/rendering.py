"""Pages from templates. Everything is escaped unless a template says otherwise; none does."""

from pathlib import Path
from typing import Any

from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request

from controlplane.auth.access import csrf_token
from controlplane.auth.roles import Principal, Role, allows
from controlplane.web import assets, glossary, text

TEMPLATES = Path(__file__).parent / "templates"
NAVIGATION = (
    ("/", "Fleet"), ("/findings", "Findings"), ("/actions", "Actions"),
    ("/decisions", "Decisions"), ("/slos", "SLOs"), ("/policies", "Policies"),
    ("/audit", "Audit"), ("/settings", "Settings"),
)  # fmt: skip


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters.update(text.FILTERS)
    environment.globals["asset"] = assets.url
    environment.globals["navigation"] = NAVIGATION
    environment.globals["terms"] = glossary.TERMS
    return environment


_ENVIRONMENT = _environment()


def fragment(template: str, **context: Any) -> str:
    """A piece of a page as HTML."""
    return _ENVIRONMENT.get_template(template).render(**context)


def page(
    request: Request,
    principal: Principal | None,
    template: str,
    *,
    twin: str = "",
    status: int = 200,
    headers: dict[str, str] | None = None,
    **context: Any,
) -> HTMLResponse:
    """A whole page.

    Args:
        request: gives the path, for navigation, and the CSRF token of the session.
        principal: who looks; None shows neither navigation nor controls.
        template: file of `templates`.
        twin: URL of the same facts as JSON.
        status: HTTP status.
        headers: further headers, e.g. an ETag.
        **context: what the template shows.
    """
    html = fragment(
        template, path=request.url.path, **shared(request, principal), twin=twin, **context
    )
    return HTMLResponse(html, status, headers=headers)


def shared(request: Request, principal: Principal | None) -> dict[str, Any]:
    """What every template may ask about the visitor: name, role, rights, CSRF token."""
    role = None if principal is None else principal.role
    return {
        "principal": principal, "csrf": csrf_token(request),
        "operates": role is not None and allows(role, Role.OPERATOR),
        "administers": role is not None and allows(role, Role.ADMIN),
    }  # fmt: skip
