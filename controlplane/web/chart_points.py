"""One point of every chart from one window. Pure; seconds and ratios, None where nothing was seen.

`load_cv` is the coefficient of variation of expert loads, debiased for chance: √(CV² − (E−k)/Nk).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from contract.frame import HISTOGRAM_BOUNDS, OPS, PARTS
from controlplane.history.latency import Quantile, quantile
from controlplane.history.observed import exact_bounds, observed_of
from controlplane.history.window import EngineWindow

STEPS: Mapping[int, tuple[int, int]] = MappingProxyType(
    {300: (10, 10), 900: (10, 10), 3600: (10, 30), 21_600: (60, 120), 86_400: (60, 300)}
)
"""Seconds that a chart spans → length of the stored sums it reads, and of one point."""
ARRAYS = frozenset(
    {"assignments", "overflow", "ttft", "tpot", "step_time", "a2a_layer", "queue_time"}
)
SERIES = (
    "ttft_p50", "ttft_p99", "tpot_p50", "tpot_p99", "queue_p99", "overflow", "overflow_worst_layer",
    "load_cv_mean", "load_cv_worst_layer", "step_p50", "step_p99", "dispatch_p99", "combine_p99",
    "dispatch_wait_p99", "tokens_per_second", "requests_per_second",
)  # fmt: skip
_HISTOGRAMS = {
    "ttft": "ttft", "tpot": "tpot", "queue_time": "queue", "step_time": "step",
}  # fmt: skip
Values = dict[str, float | None]


@dataclass(frozen=True, slots=True)
class Point:
    """Values by series name, at the middle of the window.

    `more` names the quantiles that lie above the last bound of their histogram: the value is that
    bound, and they are more.
    """

    at: float
    values: Values
    more: frozenset[str] = frozenset()


def point_of(window: EngineWindow) -> Point:
    """The point of a window."""
    quantiles = {name: at for name, at in _quantiles(window).items() if at is not None}
    values: Values = dict.fromkeys(SERIES)
    values |= {name: at.at_least for name, at in quantiles.items()}
    values |= _loads(window)
    values |= _rates(window)
    more = frozenset(name for name, at in quantiles.items() if at.value is None)
    return Point(at=(window.start + window.end) / 2.0, values=values, more=more)


def _rates(window: EngineWindow) -> Values:
    """What an observe-only engine does not count is unknown, not zero."""
    if window.covered_seconds <= 0:
        return {}
    observed = observed_of(window.header)
    missing = set(() if observed is None else observed.missing)
    values: Values = {}
    if not missing & {"prefill_tokens", "decode_tokens"}:
        values["tokens_per_second"] = window.total_tokens / window.covered_seconds
    if "finished" not in missing:
        values["requests_per_second"] = window.finished / window.covered_seconds
    return values


def _quantiles(window: EngineWindow) -> dict[str, Quantile | None]:
    found: dict[str, Quantile | None] = {}
    for series, array, q in (
        ("ttft_p50", "ttft", 0.5), ("ttft_p99", "ttft", 0.99), ("tpot_p50", "tpot", 0.5),
        ("tpot_p99", "tpot", 0.99), ("queue_p99", "queue_time", 0.99),
        ("step_p50", "step_time", 0.5), ("step_p99", "step_time", 0.99),
    ):  # fmt: skip
        cells, exact = _cells(window, array), exact_bounds(window.header, array)
        found[series] = _at(cells, _HISTOGRAMS[array], q, exact)
    return found | _all_to_all(window)


def _cells(window: EngineWindow, name: str) -> npt.NDArray[np.uint64] | None:
    """A histogram over all generations (and phases)."""
    cells = len(HISTOGRAM_BOUNDS[_HISTOGRAMS[name]]) + 1
    found = [
        arrays[name].reshape(-1, cells).sum(axis=0)
        for arrays in window.by_generation.values() if name in arrays
    ]  # fmt: skip
    return np.sum(found, axis=0, dtype=np.uint64) if found else None


def _at(
    cells: npt.NDArray[np.uint64] | None, name: str, q: float,
    exact: tuple[float, ...] | None = None,
) -> Quantile | None:  # fmt: skip
    return None if cells is None else quantile(cells, HISTOGRAM_BOUNDS[name], q, exact=exact)


def _loads(window: EngineWindow) -> Values:
    assignments = window.arrays.get("assignments")
    if assignments is None or assignments.size == 0:
        return {}
    load = assignments.sum(axis=0).astype(np.float64)
    totals = load.sum(axis=1)
    seen = totals > 0
    if not seen.any():
        return {}
    experts = load.shape[1]
    mean = totals[seen, None] / experts
    variance = ((load[seen] / mean - 1.0) ** 2).mean(axis=1)
    noise = (experts - window.header.top_k) / totals[seen]
    spread = np.sqrt(np.maximum(0.0, variance - noise))
    values: Values = {
        "load_cv_mean": float(spread.mean()), "load_cv_worst_layer": float(spread.max()),
    }  # fmt: skip
    overflow = window.arrays.get("overflow")
    if overflow is not None:
        values["overflow"] = float(overflow.sum() / totals.sum())
        values["overflow_worst_layer"] = float((overflow[seen] / totals[seen]).max())
    return values


def _all_to_all(window: EngineWindow) -> dict[str, Quantile | None]:
    cells = window.arrays.get("a2a_layer")
    if cells is None:
        return {}
    wait, transfer = PARTS.index("wait"), PARTS.index("transfer")
    dispatch, combine = OPS.index("dispatch"), OPS.index("combine")
    return {
        "dispatch_p99": _at(cells[dispatch, transfer].sum(axis=0), "a2a", 0.99),
        "combine_p99": _at(cells[combine, transfer].sum(axis=0), "a2a", 0.99),
        "dispatch_wait_p99": _at(cells[dispatch, wait].sum(axis=0), "a2a", 0.99),
    }
