"""The engines that sent frames."""

from fastapi import APIRouter

from contract.frame import FrameHeader
from controlplane.history.api.dependencies import Answer, Stored, Viewer
from controlplane.history.observed import observed_of

router = APIRouter(tags=["engines"])


class EngineView(Answer):
    """An engine that sent frames, by its newest one.

    `observe_only` is the kind of an engine that is read by its metrics and never acted on. Nothing
    of its experts, ranks and config is known: these are null then.
    """

    engine_id: str
    observe_only: str | None
    group: str
    model: str
    simulated: bool
    boot_id: str
    newest_ended: float
    age_seconds: float
    layers: int | None
    experts: int | None
    top_k: int | None
    ranks: int | None
    config_generation: int | None
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
                age_seconds=history.clock.now() - newest.ended, live_bias=header.live_bias,
                **_sizes(header, told=observed is None),
            )
        )  # fmt: skip
    return views


def _sizes(header: FrameHeader, *, told: bool) -> dict[str, int | None]:
    names = ("layers", "experts", "top_k", "ranks", "config_generation")
    return {name: getattr(header, name) if told else None for name in names}
