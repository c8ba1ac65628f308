"""The engines that sent frames."""

from fastapi import APIRouter
from pydantic import Field

from contract.frame import FrameHeader
from controlplane.history.api.dependencies import Answer, Stored, Viewer
from controlplane.history.observed import observed_of

router = APIRouter(tags=["engines"])


class EngineView(Answer):
    """An engine that sent frames, by its newest one."""

    engine_id: str = Field(description="The engine")
    observe_only: str | None = Field(
        description="Kind of an engine that is read by its metrics and never acted on; else null"
    )
    group: str = Field(description="EP group, as the frame says")
    model: str = Field(description="Name of the model")
    simulated: bool = Field(description="Whether a simulation wrote the frame")
    boot_id: str = Field(description="Run of the engine")
    newest_ended: float = Field(description="End of the newest frame, unix seconds, as it says")
    age_seconds: float = Field(
        description="Seconds from there to now; since it was received if that is in the future"
    )
    layers: int | None = Field(description="MoE layers; like sizes and config null if observe-only")
    experts: int | None = Field(description="Logical experts of a layer")
    top_k: int | None = Field(description="Experts that a token is sent to in a layer")
    ranks: int | None = Field(description="Expert-parallel ranks")
    config_generation: int | None = Field(description="Generation of the runtime config")
    live_bias: str | None = Field(description="Hash of the router bias that routes")


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
                age_seconds=newest.age(history.clock.now()), live_bias=header.live_bias,
                **_sizes(header, told=observed is None),
            )
        )  # fmt: skip
    return views


def _sizes(header: FrameHeader, *, told: bool) -> dict[str, int | None]:
    names = ("layers", "experts", "top_k", "ranks", "config_generation")
    return {name: getattr(header, name) if told else None for name in names}
