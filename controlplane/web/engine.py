"""The Engine page: heatmap, SLOs, charts, config and bias, overflow at every rung."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from contract.runtime_config import CAPACITY_LADDER, KNOBS
from controlplane.actuator import holds
from controlplane.actuator.governance import Governance
from controlplane.errors import NotFoundError
from controlplane.web import engine_view, one_click
from controlplane.web.access import Governing, Stored, Viewer
from controlplane.web.chart_points import STEPS
from controlplane.web.engine_view import EngineView
from controlplane.web.rendering import fragment, page
from controlplane.web.text import duration

router = APIRouter(include_in_schema=False)

LOAD_SECONDS = (10, 60, 300, 900, 3600)
SCALES = {
    "relative": "× layer mean", "share": "share of layer", "row": "of the layer's largest",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart of the page: its name in `charts.js`, title, word of the glossary.

    `needs`: what an observe-only engine must measure for it; empty where none does.
    """

    id: str
    title: str
    word: str = ""
    needs: tuple[str, ...] = ()


CHARTS = (
    Chart("ttft", "Time to first token", "TTFT", ("ttft",)),
    Chart("tpot", "Time per output token", "TPOT", ("tpot",)),
    Chart("overflow", "Overflow before reroute", "overflow"),
    Chart("load_cv", "Expert load CV, debiased", "load CV"),
    Chart("step", "Step time"),
    Chart("a2a", "All-to-all per layer", "all-to-all"),
    Chart("rate", "Throughput", needs=("prefill_tokens", "decode_tokens")),
    Chart("queue", "Time in queue", needs=("queue_time",)),
)
Window = Annotated[int, Query(description="Seconds that the charts span")]


@dataclass(frozen=True, slots=True)
class KnobRow:
    """One knob of the config table."""

    name: str
    value: object
    baseline: object
    lease: str
    pinned_by: str
    support: str
    reason: str


@router.get("/engines/{engine_id}")
def engine_page(
    engine_id: str, request: Request, viewer: Viewer, governing: Governing, history: Stored,
    window: Window = 900, load: int = 60, phase: Literal["both", "prefill", "decode"] = "both",
    scale: Literal["relative", "share", "row"] = "relative",
) -> HTMLResponse:  # fmt: skip
    """One engine."""
    known_engine(engine_id, governing, history.engine_ids())
    view = engine_view.engine(governing, history, engine_id)
    return page(
        request, viewer, "engine.html", twin=f"/api/v1/engines/{engine_id}/evaluation",
        **summary(view, governing), window=window if window in STEPS else 900,
        windows={seconds: duration(seconds) for seconds in STEPS},
        load=load if load in LOAD_SECONDS else 60,
        loads={seconds: duration(seconds) for seconds in LOAD_SECONDS},
        phase=phase, scale=scale, scales=SCALES, charts=charts_of(view),
    )  # fmt: skip


def charts_of(view: EngineView) -> list[Chart]:
    """The charts that an engine has something to draw in."""
    if view.observe_only is None:
        return list(CHARTS)
    return [c for c in CHARTS if c.needs and not set(c.needs) & set(view.missing)]


def known_engine(engine_id: str, governing: Governance, seen: list[str]) -> None:
    """Refuse an id that nobody configured and no frame carried.

    Raises:
        NotFoundError: it is unknown.
    """
    if engine_id not in seen and engine_id not in governing.groups.everyone():
        raise NotFoundError(
            f"engine {engine_id!r} is neither configured nor has it sent frames",
            field="engine_id", value=engine_id,
        )  # fmt: skip


def live_parts(view: EngineView, governing: Governance, visitor: dict[str, Any]) -> dict[str, str]:
    """The parts of the page that are renewed while it is open, by the name of their event."""
    context = {**summary(view, governing), **visitor}
    return {
        "summary": fragment("parts/engine_summary.html", **context),
        "config": fragment("parts/engine_config.html", **context),
    }


def summary(view: EngineView, governing: Governance) -> dict[str, Any]:
    """What the renewed parts show."""
    return {
        "engine": view, "knobs": _knobs(view.engine_id, governing), "rungs": _rungs(view),
        "rollback": one_click.offered(view, governing),
        "members": governing.groups.members(view.group) if view.configured else [],
    }  # fmt: skip


def _knobs(engine_id: str, governing: Governance) -> list[KnobRow]:
    known = governing.readback.known(engine_id)
    if known is None or known.state is None:
        return []
    config, now = known.state.document.config, governing.clock.now()
    leases = {lease.knob: lease for lease in known.state.leases}
    support = {k.knob: k for k in known.capabilities.knobs} if known.capabilities else {}
    with governing.database.read() as session:
        pins = {row.knob: row.author for row in holds.pins(session, now, engine_id)}
    return [
        KnobRow(
            name=name, value=getattr(config, name),
            baseline=getattr(known.baseline, name) if known.baseline else None,
            lease=_lease(leases[name].expires_in_seconds - (now - known.at))
            if name in leases else "",
            pinned_by=pins.get(name, ""),
            support=support[name].support if name in support else "",
            reason=support[name].reason if name in support else "",
        )
        for name in KNOBS
    ]  # fmt: skip


def _lease(left: float) -> str:
    """Rounded, so that the page is not renewed for a clock."""
    return f"back to the baseline in about {duration(max(0.0, round(left / 30.0) * 30.0))}"


def _rungs(view: EngineView) -> list[dict[str, Any]]:
    load = view.load
    if not load.overflow_at_rung:
        return []
    live = view.config.capacity_factor if view.config else None
    return [
        {
            "rung": rung, "ratio": load.overflow_at_rung.get(rung),
            "peak": load.overflow_at_rung_peak.get(rung), "slots": load.slots_at_rung.get(rung),
            "live": rung == live,
        }
        for rung in CAPACITY_LADDER
    ]  # fmt: skip
