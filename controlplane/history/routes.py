"""The query API over the history."""

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from pydantic import BaseModel, ConfigDict

from controlplane.auth.access import require
from controlplane.auth.roles import Principal, Role
from controlplane.history.history import History


def _history(request: Request) -> History:
    history: History = request.app.state.history
    return history


Stored = Annotated[History, Depends(_history)]
Viewer = Annotated[Principal, Depends(require(Role.VIEWER))]

router = APIRouter(prefix="/api/v1", tags=["history"])


class EngineView(BaseModel):
    """An engine that sent frames, by its newest one."""

    model_config = ConfigDict(frozen=True)

    engine_id: str
    group: str
    model: str
    simulated: bool
    boot_id: str
    newest_ended: float
    age_seconds: float
    layers: int
    experts: int
    top_k: int
    ranks: int
    config_generation: int
    live_bias: str | None


@router.get("/engines")
def list_engines(history: Stored, _viewer: Viewer) -> list[EngineView]:
    """Every engine that ever sent a frame."""
    views: list[EngineView] = []
    for engine_id in history.engine_ids():
        newest = history.newest(engine_id)
        if newest is None:
            continue
        header = newest.header
        views.append(
            EngineView(
                engine_id=engine_id, group=header.group, model=header.model,
                simulated=header.simulated, boot_id=header.boot_id, newest_ended=newest.ended,
                age_seconds=history.clock.now() - newest.ended, layers=header.layers,
                experts=header.experts, top_k=header.top_k, ranks=header.ranks,
                config_generation=header.config_generation, live_bias=header.live_bias,
            )
        )  # fmt: skip
    return views
