"""Layers over time, and overflow at every rung."""

from typing import Annotated, Literal

from fastapi import APIRouter, Query
from pydantic import Field

from contract.runtime_config import CAPACITY_LADDER
from controlplane.db.base import LARGEST_INTEGER
from controlplane.errors import InvalidInputError
from controlplane.history import series
from controlplane.history.api.dependencies import (
    End,
    Start,
    Stored,
    Viewer,
    known,
    span_of,
    summed,
)
from controlplane.history.api.layer_answers import LayerSeries, OverflowAnswer, RungOverflow
from controlplane.history.series import LAYER_COLUMNS, LAYER_TIERS
from controlplane.history.tiers import series_tier

Number = Annotated[int, Field(ge=0, le=LARGEST_INTEGER)]

router = APIRouter(tags=["layers"])


@router.get("/engines/{engine_id}/layers")
def layer_series(
    history: Stored,
    _viewer: Viewer,
    engine_id: str,
    start: Start = None,
    end: End = None,
    layer: Annotated[list[Number] | None, Query(description="Layers; all by default")] = None,
    column: Annotated[list[str] | None, Query(description="Columns; all by default")] = None,
    tier: Annotated[Literal["auto", "60", "3600"], Query()] = "auto",
    limit: Annotated[int, Query(ge=1, le=20_000)] = 5000,
    cursor: Annotated[str | None, Query(pattern=r"^\d{1,4}:\d{1,12}$")] = None,
) -> LayerSeries:
    """Load skew, overflow and all-to-all of layers over time, up to the newest frame.

    An interval that ends after `until` is partial.
    """
    span = span_of(history, start, end)
    columns = _columns(column)
    chosen = series_tier(span, LAYER_TIERS) if tier == "auto" else int(tier)
    found = series.layer_series(
        history, known(history, engine_id), span, tier=chosen, layers=layer or [],
        columns=columns, after=_parsed(cursor), limit=limit + 1,
    )  # fmt: skip
    more = len(found.rows) > limit
    kept = found.rows[:limit]
    names = ["layer", "t0", *columns]
    return LayerSeries(
        tier=chosen, until=found.until, columns=names,
        rows=[[row[name] for name in names] for row in kept],
        cursor=f"{kept[-1]['layer']}:{kept[-1]['t0']}" if more else None,
    )  # fmt: skip


@router.get("/engines/{engine_id}/overflow")
def overflow(
    history: Stored, _viewer: Viewer, engine_id: str, start: Start = None, end: End = None
) -> OverflowAnswer:
    """Overflow at the live capacity factor and at every rung of the ladder."""
    span = span_of(history, start, end)
    (covered,) = history.sums(
        [known(history, engine_id)], span, only=("assignments", "overflow", "overflow_at_rung")
    )
    arrays = summed(covered.window, span).arrays
    total = int(arrays["assignments"].sum()) if "assignments" in arrays else 0
    at_rung = arrays.get("overflow_at_rung")
    rungs = []
    for index, rung in enumerate(CAPACITY_LADDER if at_rung is not None else ()):
        by_layer = at_rung[index].tolist() if at_rung is not None else []
        rungs.append(
            RungOverflow(
                capacity_factor=rung, overflow=sum(by_layer),
                ratio=sum(by_layer) / total if total else None, by_layer=by_layer,
            )
        )  # fmt: skip
    return OverflowAnswer(
        tiers=covered.intervals, start=covered.span.start, end=covered.span.end,
        assignments=total, rungs=rungs,
        overflow=int(arrays["overflow"].sum()) if "overflow" in arrays else 0,
    )  # fmt: skip


def _columns(asked: list[str] | None) -> list[str]:
    unknown = [name for name in asked or [] if name not in LAYER_COLUMNS]
    if unknown:
        raise InvalidInputError(
            f"column {unknown[0]!r} is unknown; known: {', '.join(LAYER_COLUMNS)}",
            field="column", value=unknown[0], bound=list(LAYER_COLUMNS),
        )  # fmt: skip
    return list(asked or LAYER_COLUMNS)


def _parsed(cursor: str | None) -> tuple[int, int] | None:
    if cursor is None:
        return None
    layer, _, t0 = cursor.partition(":")
    return int(layer), int(t0)
