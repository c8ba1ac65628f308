"""Expert loads: the matrix of an engine, a group or the fleet; ranked experts; one expert."""

from typing import Annotated, Literal

import numpy as np
from fastapi import APIRouter, Query, Response

from controlplane.errors import InvalidInputError, NotFoundError
from controlplane.history import load_matrix
from controlplane.history.api.dependencies import (
    End,
    Start,
    Stored,
    Viewer,
    known,
    no_frame,
    span_of,
)
from controlplane.history.api.load_answers import (
    ExpertRank,
    ExpertSeries,
    LoadAnswer,
    Point,
    RankedAnswer,
)
from controlplane.history.history import History
from controlplane.history.load_matrix import LoadMatrix
from controlplane.history.models import EngineBoot
from controlplane.history.series import expert_series
from controlplane.history.window import EngineWindow

router = APIRouter(tags=["loads"])

Phase = Annotated[
    Literal["prefill", "decode"] | None, Query(description="One phase; both by default")
]
_ONLY = ("assignments",)


@router.get(
    "/load",
    responses={
        200: {
            "description": f"The matrix. With `format=binary`: {load_matrix.LAYOUT}",
            "content": {load_matrix.MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}}},
        }
    },
    response_model=LoadAnswer,
)
def load(
    history: Stored,
    _viewer: Viewer,
    engine: Annotated[str | None, Query(description="One engine; else a group or all")] = None,
    group: Annotated[str | None, Query(description="Every engine of an EP group")] = None,
    start: Start = None,
    end: End = None,
    phase: Phase = None,
    format: Annotated[Literal["json", "binary"], Query()] = "json",  # noqa: A002 - name of the API
) -> LoadAnswer | Response:
    """The matrix [layers, experts] of one engine, a group, or the fleet.

    Without `end`, one engine's matrix runs up to now, and a fleet's up to the newest sealed minute.
    """
    engines = _engines(history, engine, group)
    windows, tiers = _windows(history, engines, start, end)
    matrix = load_matrix.of_windows(windows, phase)
    if matrix is None:
        raise no_frame(start)
    if format == "binary":
        return Response(load_matrix.to_bytes(matrix), media_type=load_matrix.MEDIA_TYPE)
    answer = LoadAnswer(
        engines=matrix.engines, odd_engines=matrix.odd_engines, tiers=tiers, start=matrix.start,
        end=matrix.end, frames=matrix.frames, left_out=matrix.left_out,
        layers=matrix.counts.shape[0], experts=matrix.counts.shape[1],
        counts=matrix.counts.tolist(),
    )  # fmt: skip
    return Response(answer.model_dump_json(), media_type="application/json")


@router.get("/engines/{engine_id}/experts")
def ranked_experts(
    history: Stored,
    _viewer: Viewer,
    engine_id: str,
    start: Start = None,
    end: End = None,
    phase: Phase = None,
    layer: Annotated[int | None, Query(ge=0)] = None,
    order: Literal["top", "bottom"] = "top",
    limit: Annotated[int, Query(ge=1, le=1000)] = 16,
) -> RankedAnswer:
    """The hottest or coldest experts, relative to the mean of their layer."""
    windows, tiers = _windows(history, [known(history, engine_id)], start, end)
    matrix = load_matrix.of_windows(windows, phase)
    if matrix is None:
        raise no_frame(start)
    return RankedAnswer(
        tiers=tiers, start=matrix.start, end=matrix.end, frames=matrix.frames,
        left_out=matrix.left_out,
        experts=_ranked(matrix, layer, bottom=order == "bottom", limit=limit),
    )  # fmt: skip


@router.get("/engines/{engine_id}/experts/{layer}/{expert}")
def one_expert(
    history: Stored,
    _viewer: Viewer,
    engine_id: str,
    layer: int,
    expert: int,
    start: Start = None,
    end: End = None,
    limit: Annotated[int, Query(ge=1, le=2000)] = 500,
) -> ExpertSeries:
    """One expert's assignments and share of its layer by interval, up to the newest frame.

    An interval that ends after `until` is partial.
    """
    span = span_of(history, start, end)
    series = expert_series(
        history, known(history, engine_id), span, layer=layer, expert=expert, limit=limit + 1
    )
    points = [
        Point(
            t0=point.t0, assignments=point.assignments,
            share_ratio=point.assignments / point.of_layer if point.of_layer else None,
        )
        for point in series.points[:limit]
    ]  # fmt: skip
    cursor = series.points[limit].t0 if len(series.points) > limit else None
    return ExpertSeries(tier=series.tier, until=series.until, points=points, cursor=cursor)


def _engines(history: History, engine: str | None, group: str | None) -> list[str]:
    if engine is not None:
        return [known(history, engine)]
    if group is None:
        return history.engine_ids()
    found = [boot.engine_id for boot in history.newest_boots() if _group(history, boot) == group]
    if not found:
        raise NotFoundError(f"no engine of group {group!r} sent frames", field="group", value=group)
    return found


def _group(history: History, boot: EngineBoot) -> str | None:
    """As the boot says, or the newest frame where what the boot says is damaged."""
    if "group" in boot.header:
        return str(boot.header["group"])
    newest = history.newest(boot.engine_id)
    return None if newest is None else newest.header.group


def _windows(
    history: History, engines: list[str], start: float | None, end: float | None
) -> tuple[list[EngineWindow], dict[int, int]]:
    if end is None and len(engines) != 1:
        end = history.sealed_until(engines)
    span = span_of(history, start, end)
    tiers: dict[int, int] = {}
    windows: list[EngineWindow] = []
    for covered in history.sums(engines, span, only=_ONLY):
        for tier, intervals in covered.intervals.items():
            tiers[tier] = tiers.get(tier, 0) + intervals
        if covered.window is not None:
            windows.append(covered.window)
    return windows, tiers


def _ranked(matrix: LoadMatrix, layer: int | None, *, bottom: bool, limit: int) -> list[ExpertRank]:
    layers, experts = matrix.counts.shape
    if layer is not None and layer >= layers:
        raise InvalidInputError(
            f"layer {layer} is over the bound of {layers - 1}", field="layer", value=layer,
            bound=layers - 1,
        )  # fmt: skip
    totals = matrix.counts.sum(axis=1, keepdims=True).astype(np.float64)
    relative = matrix.counts * experts / np.maximum(totals, 1)
    chosen = range(layers) if layer is None else [layer]
    ranked = sorted(
        ((float(relative[at, expert]), at, expert) for at in chosen for expert in range(experts)),
        reverse=not bottom,
    )
    return [
        ExpertRank(
            layer=at, expert=expert, assignments=int(matrix.counts[at, expert]),
            share_ratio=ratio / experts, over_mean_ratio=ratio,
        )
        for ratio, at, expert in ranked[:limit]
    ]  # fmt: skip
