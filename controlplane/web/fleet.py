"""The Fleet page, and the same as JSON."""

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from controlplane.web import engine_view
from controlplane.web.access import Governing, Stored, Viewer
from controlplane.web.engine_view import EngineState, EngineView
from controlplane.web.rendering import fragment, page

router = APIRouter()
TWIN = "/api/v1/fleet"


@router.get("/", include_in_schema=False)
def fleet_page(
    request: Request, viewer: Viewer, governing: Governing, history: Stored
) -> HTMLResponse:
    """Every engine at a glance."""
    return page(
        request, viewer, "fleet.html", twin=TWIN, **overview(engine_view.fleet(governing, history))
    )


@router.get(TWIN, tags=["engines"])
def fleet_json(_viewer: Viewer, governing: Governing, history: Stored) -> list[EngineView]:
    """Every engine: state, SLOs, findings, config, actions under way."""
    return engine_view.fleet(governing, history)


def overview(engines: list[EngineView]) -> dict[str, Any]:
    """What the page shows: engines by group, and how many are well."""
    groups: dict[str, list[EngineView]] = {}
    for one in engines:
        groups.setdefault(one.group, []).append(one)
    breached = sum(1 for e in engines for slo in e.slos if slo.state == "breached")
    return {
        "groups": groups,
        "counts": {
            "engines": sum(1 for e in engines if e.observe_only is None),
            "observed": sum(1 for e in engines if e.observe_only is not None),
            "ready": sum(1 for e in engines if e.states == (EngineState.READY,)),
            "breached": breached,
            "firing": sum(len(e.firing) for e in engines),
            "actions": len({a.action_id for e in engines for a in e.actions}),
        },
    }  # fmt: skip


def live_table(engines: list[EngineView]) -> str:
    """The part of the page that is renewed while it is open."""
    return fragment("parts/fleet_table.html", **overview(engines))
