"""Findings: what every detector says of every engine, and why the load moved."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse
from pydantic import BaseModel, ConfigDict

from controlplane.actuator.governance import Governance
from controlplane.detectors.finding import Attribution, Finding, FindingState
from controlplane.history.history import History
from controlplane.web import engine_view
from controlplane.web.access import Governing, Stored, Viewer
from controlplane.web.rendering import page

router = APIRouter()
TWIN = "/api/v1/findings"
Engine = Annotated[str, Query(max_length=128)]
_ORDER = tuple(FindingState)[::-1]


class EngineFindings(BaseModel):
    """Of one engine's newest evaluation; firing first."""

    model_config = ConfigDict(frozen=True)

    engine_id: str
    evaluated_at: float | None
    findings: tuple[Finding, ...]
    attribution: Attribution | None


@router.get("/findings", include_in_schema=False)
def findings_page(
    request: Request, viewer: Viewer, governing: Governing, history: Stored, engine: Engine = ""
) -> HTMLResponse:
    """All findings, by engine."""
    twin = f"{TWIN}?engine={engine}" if engine else TWIN
    return page(
        request, viewer, "findings.html", twin=twin, engine=engine,
        engines=engine_view.everyone(governing, history),
        shown=of_engines(governing, history, engine),
    )  # fmt: skip


@router.get(TWIN, tags=["engines"])
def findings_json(
    _viewer: Viewer, governing: Governing, history: Stored, engine: Engine = ""
) -> list[EngineFindings]:
    """Findings and attribution of every engine, or of one."""
    return of_engines(governing, history, engine)


def of_engines(governing: Governance, history: History, engine: str) -> list[EngineFindings]:
    """Findings of every engine, or of the one named."""
    everyone = engine_view.everyone(governing, history)
    views = [
        engine_view.engine(governing, history, name)
        for name in everyone if engine in {"", name}
    ]  # fmt: skip
    return [
        EngineFindings(
            engine_id=view.engine_id, evaluated_at=view.evaluated_at,
            attribution=view.attribution,
            findings=tuple(sorted(view.findings, key=lambda found: _ORDER.index(found.state))),
        )
        for view in views
    ]  # fmt: skip
