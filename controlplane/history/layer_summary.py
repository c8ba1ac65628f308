"""One row a layer: the shape of the load in plain numbers (formulas: DESIGN § 4.4). Pure."""

import math
from typing import Any

import numpy as np

from contract.frame import OPS, PARTS
from contract.histograms import ALL_TO_ALL_SECONDS
from controlplane.history.latency import quantile
from controlplane.history.window import EngineWindow, Sums

TOP_SHARE = 0.16
_COUNTS = ("overflow", "rerouted", "spilled", "dropped", "executed")
_TRANSFER = PARTS.index("transfer")


def summarise(window: EngineWindow, tier: int, t0: int) -> list[dict[str, Any]]:
    """Rows of `layer_summary` for a window of `tier` seconds that starts at `t0`."""
    header = window.header
    assignments = window.arrays.get("assignments")
    rows: list[dict[str, Any]] = []
    for layer in range(header.layers):
        load = assignments[:, layer].sum(axis=0) if assignments is not None else None
        row: dict[str, Any] = {
            "engine_id": window.engine_id, "layer": layer, "tier": tier, "t0": t0,
            **shape_of_load(load, header.top_k),
        }  # fmt: skip
        for name in _COUNTS:
            values = window.arrays.get(name)
            row[name] = int(values[layer]) if values is not None else 0
        row.update(_all_to_all(window.arrays.get("a2a_layer"), layer))
        rows.append(row)
    return rows


def shape_of_load(load: Sums | None, top_k: int) -> dict[str, Any]:
    """Raw and debiased CV, max over mean, share of the busiest 16 %, hottest expert."""
    total = int(load.sum()) if load is not None else 0
    if load is None or total == 0:
        return {
            "assignments": total, "load_cv_ratio": None, "load_cv_debiased_ratio": None,
            "max_over_mean_ratio": None, "top_share_ratio": None, "hot_expert": None,
        }  # fmt: skip
    experts = load.size
    values = load.astype(np.float64)
    mean = total / experts
    variance = float(values.var()) / mean**2
    noise = (experts - top_k) / total
    top = max(1, math.ceil(TOP_SHARE * experts))
    return {
        "assignments": total,
        "load_cv_ratio": math.sqrt(variance),
        "load_cv_debiased_ratio": math.sqrt(max(0.0, variance - noise)),
        "max_over_mean_ratio": float(values.max()) / mean,
        "top_share_ratio": float(np.sort(values)[-top:].sum()) / total,
        "hot_expert": int(values.argmax()),
    }


def _all_to_all(cells: Sums | None, layer: int) -> dict[str, float | None]:
    found: dict[str, float | None] = {}
    for index, op in enumerate(OPS):
        for percent in (50, 99):
            name = f"{op}_p{percent}_seconds"
            found[name] = None
            if cells is not None:
                at = quantile(cells[index, _TRANSFER, layer], ALL_TO_ALL_SECONDS, percent / 100)
                found[name] = at.value if at else None
    return found
