"""One row a layer: the shape of the load in plain numbers (formulas: DESIGN § 4.4). Pure."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from contract.frame import OPS, PARTS
from contract.histograms import ALL_TO_ALL_SECONDS
from controlplane.history.latency import quantile_values
from controlplane.history.window import EngineWindow, Sums

TOP_SHARE = 0.16
_COUNTS = ("overflow", "rerouted", "spilled", "dropped", "executed")
ARRAYS = frozenset({"assignments", "a2a_layer", *_COUNTS})
"""What a summary is made of."""
_TRANSFER = PARTS.index("transfer")


def summarise(window: EngineWindow, tier: int, t0: int) -> list[dict[str, Any]]:
    """Rows of `layer_summary` for a window of `tier` seconds that starts at `t0`."""
    header = window.header
    layers = header.layers
    assignments = _of_layers(window, "assignments", axis=1)
    loads = (
        np.zeros((layers, header.experts), np.uint64) if assignments is None
        else assignments.sum(axis=0)
    )  # fmt: skip
    columns = shapes_of_load(loads, header.top_k)
    for name in _COUNTS:
        values = _of_layers(window, name, axis=0)
        columns[name] = [0] * layers if values is None else [int(value) for value in values]
    columns |= _all_to_all(_of_layers(window, "a2a_layer", axis=2), layers)
    names = list(columns)
    return [
        {
            "engine_id": window.engine_id, "layer": layer, "tier": tier, "t0": t0,
            **dict(zip(names, row, strict=True)),
        }
        for layer, row in enumerate(zip(*columns.values(), strict=True))
    ]  # fmt: skip


def _of_layers(window: EngineWindow, name: str, *, axis: int) -> Sums | None:
    """An array of the layers that the window's newest header has; None for one of another model."""
    values = window.arrays.get(name)
    return values if values is not None and values.shape[axis] == window.header.layers else None


def shapes_of_load(loads: Sums, top_k: int) -> dict[str, list[Any]]:
    """Columns for the layers of [layers, experts]; None for a layer without assignments.

    Raw and debiased CV, max over mean, share of the busiest 16 %, hottest expert.
    """
    totals = loads.sum(axis=1)
    held = totals > 0
    experts = loads.shape[1]
    values = loads.astype(np.float64)
    some = np.maximum(totals, 1)
    mean = some / experts
    variance = values.var(axis=1) / mean**2
    noise = (experts - top_k) / some
    top = max(1, math.ceil(TOP_SHARE * experts))
    busiest = np.partition(values, experts - top, axis=1)[:, experts - top :].sum(axis=1)
    return {
        "assignments": [int(total) for total in totals],
        "load_cv_ratio": _where(held, np.sqrt(variance)),
        "load_cv_debiased_ratio": _where(held, np.sqrt(np.maximum(variance - noise, 0.0))),
        "max_over_mean_ratio": _where(held, values.max(axis=1) / mean),
        "top_share_ratio": _where(held, busiest / some),
        "hot_expert": _where(held, values.argmax(axis=1)),
    }


def _where(held: npt.NDArray[np.bool_], values: npt.NDArray[Any]) -> list[Any]:
    return [value if here else None for here, value in zip(held, values.tolist(), strict=True)]


def _all_to_all(cells: Sums | None, layers: int) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for index, op in enumerate(OPS):
        for percent in (50, 99):
            name = f"{op}_p{percent}_seconds"
            if cells is None:
                found[name] = [None] * layers
                continue
            values = quantile_values(cells[index, _TRANSFER], ALL_TO_ALL_SECONDS, percent / 100)
            found[name] = _where(~np.isnan(values), values)
    return found
