"""SLOs: state, budget, burn by tier; and the objectives as OpenSLO."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import HTMLResponse
from pydantic import BaseModel, ConfigDict

from contract.burn_windows import BurnTier
from controlplane.actuator import policy_store
from controlplane.actuator.governance import Governance
from controlplane.history.history import History
from controlplane.policy.policy import Policy
from controlplane.slo.openslo_export import write_openslo
from controlplane.slo.status import SloStatus
from controlplane.web import engine_view
from controlplane.web.access import Governing, Stored, Viewer
from controlplane.web.rendering import page

router = APIRouter()
TWIN = "/api/v1/slos"
Engine = Annotated[str, Query(max_length=128)]


class EngineSlos(BaseModel):
    """The three SLOs of one engine's newest evaluation, and the tiers they are judged by."""

    model_config = ConfigDict(frozen=True)

    engine_id: str
    policy: str
    evaluated_at: float | None
    slos: tuple[SloStatus, ...]
    tiers: tuple[BurnTier, ...]
    slices_needed: int
    slices_seen: int
    slice_seconds: float


@router.get("/slos", include_in_schema=False)
def slos_page(
    request: Request, viewer: Viewer, governing: Governing, history: Stored, engine: Engine = ""
) -> HTMLResponse:
    """Budget and burn, by engine."""
    return page(
        request, viewer, "slos.html", twin=f"{TWIN}?engine={engine}" if engine else TWIN,
        engine=engine, engines=engine_view.everyone(governing, history),
        shown=of_engines(governing, history, engine),
    )  # fmt: skip


@router.get(TWIN, tags=["engines"])
def slos_json(
    _viewer: Viewer, governing: Governing, history: Stored, engine: Engine = ""
) -> list[EngineSlos]:
    """SLOs of every engine, or of one."""
    return of_engines(governing, history, engine)


@router.get("/api/v1/engines/{engine_id}/openslo", tags=["engines"])
def openslo(engine_id: str, _viewer: Viewer, governing: Governing) -> Response:
    """The engine's objectives and burn tiers as OpenSLO v1 YAML."""
    governing.groups.group_of(engine_id)
    return Response(write_openslo(_policy(governing, engine_id).slo), media_type="application/yaml")


def of_engines(governing: Governance, history: History, engine: str) -> list[EngineSlos]:
    """SLOs of every engine, or of the one named."""
    shown = []
    for name in engine_view.everyone(governing, history):
        if engine not in {"", name}:
            continue
        view = engine_view.engine(governing, history, name)
        policy = _policy(governing, name)
        overflow = policy.slo.overflow
        shown.append(
            EngineSlos(
                engine_id=name, policy=policy.name, evaluated_at=view.evaluated_at,
                slos=view.slos, tiers=policy.slo.tiers, slices_needed=overflow.slices_needed,
                slices_seen=overflow.slices_seen, slice_seconds=overflow.slice_seconds,
            )
        )  # fmt: skip
    return shown


def _policy(governing: Governance, engine_id: str) -> Policy:
    with governing.database.read() as session:
        return policy_store.governing(session, engine_id, governing.default_policy).policy
