"""Every page of the web UI, and what it puts on the application's state."""

from fastapi import APIRouter, FastAPI

from controlplane.web import (
    access,
    actions,
    api_page,
    assets,
    audit,
    charts,
    decisions,
    differences,
    engine,
    findings,
    fleet,
    glossary_page,
    live,
    policies,
    rollback,
    settings_page,
    slos,
)
from controlplane.web.charts import PointCache
from controlplane.web.headers import SecurityHeaders
from controlplane.web.live import Streams

router = APIRouter()
for part in (
    access.router, assets.router, fleet.router, charts.router, differences.router, rollback.router,
    engine.router, findings.router, actions.router, decisions.router, slos.router, policies.router,
    audit.router, settings_page.router, settings_page.api, api_page.router,
    glossary_page.router, live.router,
):  # fmt: skip
    router.include_router(part)


def install(app: FastAPI) -> None:
    """Add the pages' state and headers to an application."""
    app.state.points = PointCache()
    app.state.streams = Streams()
    app.add_middleware(SecurityHeaders)
