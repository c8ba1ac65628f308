"""Settings: freezes and pins for operators; engines, tokens and login links for administrators."""

from typing import Annotated

from fastapi import APIRouter, Form, Request
from fastapi.responses import HTMLResponse, RedirectResponse

from contract.access_name import ACCESS_NAME_BOUND, ACCESS_NAME_PATTERN
from contract.settings_reader import CONTROL_SOURCE
from controlplane.actuator.routes import freezes, knob_pins
from controlplane.auth import routes as auth
from controlplane.auth.roles import Role, allows
from controlplane.auth.sessions import PEOPLE
from controlplane.errors import InvalidInputError
from controlplane.policy.knob import Knob
from controlplane.web import settings_view
from controlplane.web.access import (
    Admin,
    Governing,
    Operator,
    Registry,
    Stores,
    Viewer,
    see_other,
)
from controlplane.web.parsing import parsed
from controlplane.web.rendering import page
from controlplane.web.settings_view import SettingsShown

router = APIRouter(include_in_schema=False)
api = APIRouter(tags=["access"])
HERE = "/settings"
TWIN = "/api/v1/settings"
TTLS = {900: "15 minutes", 3600: "1 hour", 14_400: "4 hours", 86_400: "1 day", 604_800: "7 days"}
Short = Annotated[str, Form(min_length=1, max_length=128)]
Why = Annotated[str, Form(min_length=1, max_length=400)]
Tick = Annotated[bool, Form()]


@router.get(HERE)
def settings_page(
    request: Request, viewer: Viewer, governing: Governing, registry: Registry, access: Stores
) -> HTMLResponse:
    """Everything that people set here."""
    administers = allows(viewer.role, Role.ADMIN)
    facts = settings_view.shown(governing, registry, access, administers=administers)
    return page(
        request, viewer, "settings.html", twin=TWIN, facts=facts, ttls=TTLS, knobs=list(Knob),
        roles=list(Role), people=PEOPLE, groups=sorted({e.group for e in facts.engines}),
        file=CONTROL_SOURCE.default_file, name_pattern=ACCESS_NAME_PATTERN[1:-1],
        name_bound=ACCESS_NAME_BOUND,
    )  # fmt: skip


@api.get(TWIN)
def settings_json(
    viewer: Viewer, governing: Governing, registry: Registry, access: Stores
) -> SettingsShown:
    """Engines, freezes, pins, tokens (for administrators), leader."""
    administers = allows(viewer.role, Role.ADMIN)
    return settings_view.shown(governing, registry, access, administers=administers)


@router.post(HERE + "/freezes")
def freeze(
    operator: Operator, governing: Governing, scope: Annotated[str, Form(max_length=160)],
    reason: Why, ttl_seconds: Annotated[float, Form(gt=0, le=freezes.MAX_TTL_SECONDS)],
    revert: Tick = False, engines: Tick = False,
    typed: Annotated[str, Form(max_length=64)] = "",
) -> RedirectResponse:  # fmt: skip
    """Halt a scope; the whole fleet only with its name typed."""
    if scope == "fleet" and typed != "fleet":
        raise InvalidInputError(
            "to freeze the whole fleet, type the word fleet in the field beside it",
            field="typed", value=typed, bound="fleet",
        )  # fmt: skip
    values = {
        "scope": scope, "reason": reason, "ttl_seconds": ttl_seconds, "revert": revert,
        "engines": engines,
    }  # fmt: skip
    wish = parsed(freezes.FreezeWish, values)
    freezes.freeze(wish, operator, governing)
    return see_other(HERE + "#freezes")


@router.post(HERE + "/freezes/{freeze_id}/lift")
def lift(freeze_id: str, operator: Operator, governing: Governing) -> RedirectResponse:
    """End a freeze."""
    freezes.lift(freeze_id, operator, governing)
    return see_other(HERE + "#freezes")


@router.post(HERE + "/pins")
def pin(
    operator: Operator, governing: Governing, engine_id: Short, knob: Annotated[Knob, Form()],
    reason: Why, ttl_seconds: Annotated[str, Form(max_length=16)] = "",
) -> RedirectResponse:  # fmt: skip
    """Take a knob from the governor."""
    values = {
        "engine_id": engine_id, "knob": knob, "reason": reason, "ttl_seconds": ttl_seconds or None,
    }  # fmt: skip
    wish = parsed(knob_pins.PinWish, values)
    knob_pins.pin_knob(wish, operator, governing)
    return see_other(HERE + "#pins")


@router.post(HERE + "/pins/remove")
def unpin(
    operator: Operator, governing: Governing, engine_id: Short, knob: Annotated[Knob, Form()]
) -> RedirectResponse:
    """Give a knob back to the governor."""
    knob_pins.unpin_knob(engine_id, knob, operator, governing)
    return see_other(HERE + "#pins")


@router.post(HERE + "/tokens")
def make_token(
    request: Request, admin: Admin, access: Stores, name: Short, role: Annotated[Role, Form()],
    engine_id: Annotated[str, Form(max_length=128)] = "",
    days: Annotated[float | None, Form(gt=0, le=3660)] = None,
) -> HTMLResponse:  # fmt: skip
    """Make a token; this answer alone shows its secret."""
    values = {
        "name": name, "role": role, "engine_id": engine_id or None,
        "lifetime_seconds": None if days is None else days * 86_400,
    }  # fmt: skip
    body = parsed(auth.NewToken, values)
    made = auth.make_token(body, access, admin)
    return page(
        request, admin, "made.html", status=201, title=f"Token {name}",
        told="Copy it now: it is stored hashed and never shown again.", secret=made.token,
    )  # fmt: skip


@router.post(HERE + "/tokens/revoke")
def revoke_token(admin: Admin, access: Stores, name: Short) -> RedirectResponse:
    """Make a token useless."""
    auth.revoke_token(name, access, admin)
    return see_other(HERE + "#tokens")


@router.post(HERE + "/login-links")
def make_link(
    request: Request, admin: Admin, access: Stores, name: Short, role: Annotated[Role, Form()]
) -> HTMLResponse:
    """Make a one-time login link; this answer alone shows it."""
    made = auth.make_link(auth.NewLink(name=name, role=role), access, admin)
    return page(
        request, admin, "made.html", status=201, title=f"Login link for {name} ({role})",
        told="It works once, and only for a while. Send it to that person alone.",
        secret=str(request.base_url).rstrip("/") + made.path,
    )  # fmt: skip


@router.post(HERE + "/engines")
def add_engine(
    admin: Admin, registry: Registry,
    engine_id: Short, url: Annotated[str, Form(max_length=512)],
    group: Annotated[str, Form(max_length=128)] = "",
    admin_token: Annotated[str, Form(max_length=512)] = "",
) -> RedirectResponse:  # fmt: skip
    """Govern an engine that the settings file does not name."""
    values = {"engine_id": engine_id, "url": url, "group": group, "admin_token": admin_token}
    body = parsed(auth.NewEngine, values)
    auth.add_engine(body, registry, admin)
    return see_other(HERE + "#engines")


@router.post(HERE + "/engines/remove")
def remove_engine(admin: Admin, registry: Registry, engine_id: Short) -> RedirectResponse:
    """Stop governing an engine."""
    auth.remove_engine(engine_id, registry, admin)
    return see_other(HERE + "#engines")
