"""Histograms of one tick: steps, tokens, requests, and all-to-all by layer and rank."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from contract.frame import HISTOGRAM_BOUNDS, MAX_GENERATIONS, OLDER, OPS, PARTS, PHASES
from engine.simulation.conditions import Conditions
from engine.simulation.load import StepLoad
from engine.simulation.serving.serve import StepKind, Tick

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]
WAIT_JITTER = 0.02
"""A rank waits at least this share of its own transfer: clocks and kernels differ. Assumed."""
_SPREAD = ((0.9, 0.25), (1.0, 0.5), (1.12, 0.25))
"""Transfers of a layer scatter around their mean: factor and share. Assumed."""
_A2A = np.asarray(HISTOGRAM_BOUNDS["a2a"])


def cells(name: str, values: Floats, weights: Floats | None = None) -> Floats:
    """Histogram of `values` over the contract's bounds; a value on a bound is below it."""
    bounds = np.asarray(HISTOGRAM_BOUNDS[name])
    found: Floats = np.bincount(
        np.searchsorted(bounds, values, side="left"), weights, minlength=len(bounds) + 1
    ).astype(np.float64)
    return found


def slots_of(generations: Sequence[int], live: int) -> tuple[int, ...]:
    """Generation of each G slot: the newest four, then `OLDER` for the rest."""
    newest = sorted({live, *generations}, reverse=True)
    if len(newest) < MAX_GENERATIONS:
        return tuple(newest)
    return (*newest[: MAX_GENERATIONS - 1], OLDER)


@dataclass
class Timed:
    """Arrays that hold times, and the sums of the histograms."""

    slots: tuple[int, ...]
    arrays: dict[str, Counts] = field(default_factory=dict)
    sums: dict[str, float] = field(default_factory=dict)

    def add_sum(self, key: str, value: float) -> None:
        """Sum of what a histogram counted."""
        self.sums[key] = self.sums.get(key, 0.0) + value


@dataclass(frozen=True, slots=True)
class LayerTimes:
    """All-to-all of one step: seconds by op and layer, waits by op and rank."""

    transfer: Floats
    wait: Floats
    rank_wait: Floats


def timed(
    tick: Tick, kinds: list[tuple[int, StepKind, StepLoad]], live: int, conditions: Conditions,
    shape: tuple[int, int, int],
) -> Timed:  # fmt: skip
    """All time arrays of a tick.

    Args:
        tick: requests.
        kinds: whole steps of each make-up with their load.
        live: the live generation.
        conditions: slow ranks and links.
        shape: layers told of, ranks, MoE layers of the model.
    """
    seen = [generation for group in (tick.ttft, tick.tpot, tick.queue_time)
            for generation, _ in group]  # fmt: skip
    found = Timed(slots_of(seen, live))
    _requests(found, tick)
    _steps(found, kinds, live)
    _exchanges(found, kinds, conditions, shape)
    return found


def _requests(found: Timed, tick: Tick) -> None:
    for name, bounds, group in (
        ("ttft", "ttft", tick.ttft), ("tpot", "tpot", tick.tpot),
        ("queue_time", "queue", tick.queue_time),
    ):  # fmt: skip
        array = np.zeros((len(found.slots), len(HISTOGRAM_BOUNDS[bounds]) + 1))
        for generation, values in group:
            row = found.slots.index(generation) if generation in found.slots else -1
            array[row] += cells(bounds, values)
            found.add_sum(bounds, float(values.sum()))
        found.arrays[name] = array.astype(np.int64)
    ended = np.concatenate(tick.request_time) if tick.request_time else np.zeros(0)
    found.arrays["request_time"] = cells("request", ended).astype(np.int64)
    found.add_sum("request", float(ended.sum()))


def _steps(found: Timed, kinds: list[tuple[int, StepKind, StepLoad]], live: int) -> None:
    rows = len(found.slots)
    steps = np.zeros((rows, len(PHASES), len(HISTOGRAM_BOUNDS["step"]) + 1))
    gaps = np.zeros((rows, len(HISTOGRAM_BOUNDS["itl"]) + 1))
    row = found.slots.index(live)
    for count, kind, _ in kinds:
        phase = _phase(kind)
        each = np.array([kind.seconds])
        steps[row, phase] += cells("step", each, np.array([float(count)]))
        gaps[row] += cells("itl", each, np.array([count * kind.decode]))
        found.add_sum(f"step.{PHASES[phase]}", count * kind.seconds)
        found.add_sum("itl", count * kind.decode * kind.seconds)
    found.arrays["step_time"] = steps.astype(np.int64)
    found.arrays["inter_token"] = np.rint(gaps).astype(np.int64)


def _phase(kind: StepKind) -> int:
    return 0 if kind.prefill > 0 else 1


def _exchanges(
    found: Timed, kinds: list[tuple[int, StepKind, StepLoad]], conditions: Conditions,
    shape: tuple[int, int, int],
) -> None:  # fmt: skip
    layers, ranks, _ = shape
    width = len(HISTOGRAM_BOUNDS["a2a"]) + 1
    by_layer = np.zeros((len(OPS), len(PARTS), layers, width))
    by_phase = np.zeros((len(OPS), len(PARTS), len(PHASES), width))
    by_rank = np.zeros((len(OPS), len(PARTS), ranks, width))
    waited = np.zeros(ranks)
    for count, kind, load in kinds:
        times = _layer_times(kind, load, conditions, shape)
        phase = _phase(kind)
        for op, name in enumerate(OPS):
            for part, values in enumerate((times.wait[op], times.transfer[op])):
                grid = _scattered(values) * count
                by_layer[op, part] += grid
                by_phase[op, part, phase] += grid.sum(axis=0)
                key = f"a2a.{name}.{PHASES[phase]}.{PARTS[part]}"
                found.add_sum(key, count * float(values.sum()))
            even = np.full(ranks, float(times.transfer[op].mean()))
            by_rank[op, 0] += _scattered(times.rank_wait[op] / layers) * count * layers
            by_rank[op, 1] += _scattered(even) * count * layers
        waited += count * times.rank_wait.sum(axis=0) * (shape[2] / layers)
    found.arrays |= {
        "a2a_layer": np.rint(by_layer).astype(np.int64),
        "a2a_phase": np.rint(by_phase).astype(np.int64),
        "a2a_rank": np.rint(by_rank).astype(np.int64),
        "a2a_rank_wait_us": np.rint(waited * 1e6).astype(np.int64),
    }


def _layer_times(
    kind: StepKind, load: StepLoad, conditions: Conditions, shape: tuple[int, int, int]
) -> LayerTimes:
    """Transfers by layer; waits as the lag of each rank behind the last one."""
    _, ranks, model_layers = shape
    cost = kind.cost
    more = load.busiest - 1.0
    link = conditions.slowest_link()
    transfer = np.stack(
        [
            (cost.dispatch + cost.dispatch_slope * more) * link / model_layers,
            (cost.combine + cost.combine_slope * more) * link / model_layers,
        ]
    )
    slow, slow_link = np.ones(ranks), np.ones(ranks)
    for rank, factor in conditions.slow.items():
        slow[rank] = factor
    for rank, factor in conditions.slow_link.items():
        slow_link[rank] = factor
    relative = load.ranks / np.maximum(load.ranks.mean(axis=1, keepdims=True), 1e-9)
    computing = (cost.experts + cost.experts_slope * (relative - 1.0)) / model_layers * slow
    late = np.broadcast_to(cost.fixed / model_layers * slow, computing.shape)
    linked = transfer[:, :, None] / link * slow_link
    wait = np.stack([_lag(late + linked[0]), _lag(computing + linked[1])])
    wait += WAIT_JITTER * transfer[:, :, None]
    return LayerTimes(transfer, wait.max(axis=2), wait.sum(axis=1))


def _lag(ready: Floats) -> Floats:
    """Seconds until the last rank is ready, [L, M]."""
    behind: Floats = ready.max(axis=1, keepdims=True) - ready
    return behind


def _scattered(values: Floats) -> Floats:
    """One event a row, scattered over the cells of its histogram: [n, cells]."""
    width = len(_A2A) + 1
    rows = np.arange(len(values)) * width
    places = [rows + np.searchsorted(_A2A, values * factor, side="left") for factor, _ in _SPREAD]
    weights = np.repeat([share for _, share in _SPREAD], len(values))
    grid = np.bincount(np.concatenate(places), weights, minlength=len(values) * width)
    return grid.reshape(len(values), width).astype(np.float64, copy=False)
