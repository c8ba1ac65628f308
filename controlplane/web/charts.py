"""What the charts of an engine draw, as JSON: `/api/v1/engines/{id}/charts`."""

import threading
from collections import OrderedDict
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import select

from controlplane.actuator import policy_store
from controlplane.errors import InvalidInputError
from controlplane.history.history import History
from controlplane.history.intervals import intervals
from controlplane.history.models import ConfigChange
from controlplane.history.tiers import Span
from controlplane.web.access import Governing, Stored, Viewer
from controlplane.web.chart_points import ARRAYS, SERIES, STEPS, Point, point_of
from controlplane.web.engine import known_engine

router = APIRouter(tags=["engines"])
MAX_KEPT = 20_000
MAX_CHANGES = 100


class Mark(BaseModel):
    """A change of the config or the bias: a vertical line."""

    model_config = ConfigDict(frozen=True)

    at: float = Field(description="Unix seconds")
    generation: int = Field(description="Config generation from then on")
    label: str = Field(description="The same in words")


class Charts(BaseModel):
    """Series over time, up to the newest frame."""

    model_config = ConfigDict(frozen=True)

    engine_id: str = Field(description="The engine")
    start: float = Field(description="Start of the charts, unix seconds")
    end: float = Field(description="End of the charts, unix seconds; the last point may be partial")
    step: int = Field(description="Length of a point's interval, seconds")
    t: list[float] = Field(description="Middle of each point's interval, unix seconds")
    series: dict[str, list[float | None]] = Field(
        description="By name, one value a point, null where nothing was seen: latencies (ttft, "
        "tpot, queue, step, dispatch, combine) in seconds, overflow as a ratio 0 to 1, load_cv as "
        "standard deviation ÷ mean, rates a second"
    )
    more: dict[str, list[int]] = Field(
        description="By name, indexes of the points that lie above the last bound of what measures "
        "them: the value is that bound, and the truth is more"
    )
    lines: dict[str, float] = Field(
        description="Where the objective (for load_cv the detector's threshold) lies, in the "
        "series' unit"
    )
    marks: list[Mark] = Field(description="Changes of config or bias in this time, oldest first")


class PointCache:
    """Points of sealed intervals, which never change; in `app.state.points`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, int, int], Point] = OrderedDict()

    def get(self, key: tuple[str, int, int]) -> Point | None:
        """A kept point."""
        with self._lock:
            return self._kept.get(key)

    def put(self, key: tuple[str, int, int], point: Point) -> None:
        """Keep a point; the oldest one goes when there are too many."""
        with self._lock:
            self._kept[key] = point
            while len(self._kept) > MAX_KEPT:
                self._kept.popitem(last=False)


def _cache(request: Request) -> PointCache:
    cache: PointCache = request.app.state.points
    return cache


@router.get("/api/v1/engines/{engine_id}/charts")
def charts(
    engine_id: str,
    _viewer: Viewer,
    governing: Governing,
    history: Stored,
    cache: Annotated[PointCache, Depends(_cache)],
    window: Annotated[int, Query(description=f"One of {', '.join(map(str, STEPS))} s")] = 900,
) -> Charts:
    """Latencies, overflow, load skew and all-to-all over the last seconds."""
    if window not in STEPS:
        raise InvalidInputError(
            f"window {window} is not offered", field="window", value=window, bound=list(STEPS)
        )
    tier, step = STEPS[window]
    newest = history.newest(engine_id)
    if newest is None:
        known_engine(engine_id, governing, seen=[])
    end = governing.clock.now() if newest is None else newest.ended
    span = Span(end - window, end).aligned(step)
    points = _points(history, engine_id, span, tier, step, cache)
    with governing.database.read() as session:
        policy = policy_store.governing(session, engine_id, governing.default_policy).policy
    return Charts(
        engine_id=engine_id, start=span.start, end=span.end, step=step,
        t=[point.at for point in points],
        series={name: [point.values[name] for point in points] for name in SERIES},
        more=_more(points),
        lines={
            "ttft": policy.slo.ttft.threshold_seconds, "tpot": policy.slo.tpot.threshold_seconds,
            "overflow": policy.slo.overflow.threshold, "load_cv": policy.detectors.tau_threshold,
        },
        marks=_marks(history, engine_id, span),
    )  # fmt: skip


def _points(
    history: History, engine_id: str, span: Span, tier: int, step: int, cache: PointCache
) -> list[Point]:
    """Kept points first; what follows the last kept one without a break is read."""
    sealed = history.sealed_until([engine_id]) or 0.0
    points: list[Point] = []
    start = span.start
    while start + step <= span.end:
        kept = cache.get((engine_id, step, int(start)))
        if kept is None:
            break
        points.append(kept)
        start += step
    if start >= span.end:
        return points
    windows = intervals(
        history, engine_id, Span(start, span.end), tier=tier, seconds=step, only=ARRAYS
    )
    for window in windows:
        point = point_of(window)
        points.append(point)
        if window.end <= sealed:
            cache.put((engine_id, step, int(window.start)), point)
    return points


def _more(points: list[Point]) -> dict[str, list[int]]:
    named = {name for point in points for name in point.more}
    return {
        name: [index for index, point in enumerate(points) if name in point.more]
        for name in SERIES if name in named
    }  # fmt: skip


def _marks(history: History, engine_id: str, span: Span) -> list[Mark]:
    query = (
        select(ConfigChange)
        .where(
            ConfigChange.engine_id == engine_id, ConfigChange.at >= span.start,
            ConfigChange.at < span.end,
        )
        .order_by(ConfigChange.at.desc())
        .limit(MAX_CHANGES)
    )  # fmt: skip
    with history.database.read() as session:
        rows = list(session.scalars(query))
    return [
        Mark(at=row.at, generation=row.generation, label=f"generation {row.generation}")
        for row in reversed(rows)
    ]
