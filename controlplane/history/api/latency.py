"""Latency quantiles, and the exact share under a threshold, from merged histograms."""

import math
from typing import Annotated, Literal

import numpy as np
from fastapi import APIRouter, Query

from contract import histograms
from contract.frame import OPS, PARTS
from controlplane.errors import InvalidInputError
from controlplane.history.api.dependencies import (
    End,
    Start,
    Stored,
    Viewer,
    known,
    span_of,
    summed,
)
from controlplane.history.api.latency_answers import LatencyAnswer, QuantileAnswer, UnderAnswer
from controlplane.history.latency import Cells, fraction_under, quantile
from controlplane.history.observed import exact_bounds, observed_of
from controlplane.history.window import EngineWindow

router = APIRouter(tags=["latency"])

Kind = Literal["ttft", "tpot", "inter_token", "queue", "step", "dispatch", "combine"]
_BY_GENERATION: dict[str, tuple[str, tuple[float, ...]]] = {
    "ttft": ("ttft", histograms.TTFT_SECONDS),
    "tpot": ("tpot", histograms.TPOT_SECONDS),
    "inter_token": ("inter_token", histograms.INTER_TOKEN_SECONDS),
    "queue": ("queue_time", histograms.QUEUE_SECONDS),
    "step": ("step_time", histograms.STEP_SECONDS),
}
_TRANSFER = PARTS.index("transfer")


@router.get("/engines/{engine_id}/latency")
def latency(
    history: Stored,
    _viewer: Viewer,
    engine_id: str,
    kind: Kind,
    start: Start = None,
    end: End = None,
    q: Annotated[list[float] | None, Query(description="Quantiles in [0, 1]")] = None,
    under: Annotated[list[float] | None, Query(description="Thresholds in seconds")] = None,
    generation: Annotated[int | None, Query(description="One config generation; else all")] = None,
) -> LatencyAnswer:
    """Quantiles and shares of a latency over the span, of one generation or of all."""
    name, bounds = _BY_GENERATION.get(kind, ("a2a_layer", histograms.ALL_TO_ALL_SECONDS))
    wanted = q or [0.5, 0.9, 0.99]
    if any(not 0 <= value <= 1 for value in wanted):
        raise InvalidInputError(
            "q lies outside [0, 1]", field="q", value=[str(value) for value in wanted],
            bound=[0, 1],
        )  # fmt: skip
    _check_thresholds(under or [])
    span = span_of(history, start, end)
    (covered,) = history.sums([known(history, engine_id)], span, only=(name,))
    window = summed(covered.window, span)
    cells = _merged(window, name, kind, generation, np.zeros(len(bounds) + 1, dtype=np.uint64))
    exact = exact_bounds(window.header, name)
    observed = observed_of(window.header)
    return LatencyAnswer(
        kind=kind, observed_from=None if observed is None else observed.kind,
        exact_bounds=None if exact is None else list(exact),
        tiers=covered.intervals, start=covered.span.start, end=covered.span.end,
        n=int(cells.sum()), bounds=list(bounds), cells=cells.tolist(),
        quantiles=[_quantile(cells, bounds, value, exact) for value in wanted],
        under=[
            UnderAnswer(
                seconds=threshold, low=share.low, high=share.high, estimate=share.estimate,
                exact=share.exact,
            )
            for threshold in under or []
            if (share := fraction_under(cells, bounds, threshold, exact=exact)) is not None
        ],
    )  # fmt: skip


def _check_thresholds(asked: list[float]) -> None:
    for threshold in asked:
        if not 0 <= threshold < math.inf:
            raise InvalidInputError(
                f"under {threshold} is no length of time: 0 or more seconds, and finite",
                field="under", value=str(threshold), bound=0,
            )  # fmt: skip


def _merged(
    window: EngineWindow, name: str, kind: str, generation: int | None, empty: Cells
) -> Cells:
    if name == "a2a_layer":
        found = window.arrays.get(name)
        return empty if found is None else found[OPS.index(kind), _TRANSFER].sum(axis=0)
    total = empty
    for key, arrays in window.by_generation.items():
        if name in arrays and generation in (None, key):
            total = total + arrays[name].reshape(-1, len(empty)).sum(axis=0)
    return total


def _quantile(
    cells: Cells, bounds: tuple[float, ...], q: float, exact: tuple[float, ...] | None
) -> QuantileAnswer:
    at = quantile(cells, bounds, q, exact=exact)
    if at is None:
        return QuantileAnswer(q=q, seconds=None, low=None, high=None)
    return QuantileAnswer(q=q, seconds=at.value, low=at.low, high=at.high)
