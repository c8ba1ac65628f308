"""The engines that sent frames."""

from fastapi import APIRouter

from controlplane.history.api.dependencies import Answer, Stored, Viewer
from controlplane.history.observed import observed_of

router = APIRouter(tags=["engines"])


class EngineView(Answer):
    """An engine that sent frames, by its newest one.

    `observe_only` is the kind of an engine that is read by its metrics and never acted on.
    `newest_ended` is told by the engine's clock; where that lies in the future, `age_seconds` is
    counted from when the frame was received.
    """

    engine_id: str
    observe_only: str | None
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
        observed = observed_of(header)
        views.append(
            EngineView(
                engine_id=engine_id, observe_only=None if observed is None else observed.kind,
                group=header.group, model=header.model,
                simulated=header.simulated, boot_id=header.boot_id, newest_ended=newest.ended,
                age_seconds=newest.age(history.clock.now()), layers=header.layers,
                experts=header.experts, top_k=header.top_k, ranks=header.ranks,
                config_generation=header.config_generation, live_bias=header.live_bias,
            )
        )  # fmt: skip
    return views
