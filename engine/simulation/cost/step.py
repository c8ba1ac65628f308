"""Seconds of one engine step from the loads of its ranks: the busiest rank of a layer decides.

With two micro-batches in turn, the all-to-all of one runs behind the computation of the other:
a layer then takes the longer of the two (DeepSeek's overlap), not their sum.
"""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from engine.simulation.cost import dense
from engine.simulation.cost.dense import Tokens
from engine.simulation.cost.exchange import (
    ExchangeSetting,
    low_latency_seconds,
    normal_seconds,
)
from engine.simulation.cost.expert import active_experts, expert_seconds
from engine.simulation.cost.shape import ModelShape
from engine.simulation.cost.topology import Topology

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Layout:
    """How a model lies on cards.

    Attributes:
        ranks: M, expert-parallel ranks. tp: N, cards of one rank. redundant: R, extra expert slots.
        overlap: two micro-batches hide the all-to-all. fp8_dispatch: rows of dispatch in FP8.
    """

    ranks: int
    tp: int = 1
    redundant: int = 0
    overlap: bool = False
    fp8_dispatch: bool = True

    @property
    def cards(self) -> int:
        """G = N·M."""
        return self.ranks * self.tp


@dataclass(frozen=True, slots=True)
class StepTime:
    """Where the seconds of one step go; arrays hold one value a MoE layer.

    Attributes:
        attention, feed_forward, all_reduce, head, overhead: sums over layers, seconds.
        experts, dispatch, combine: [L] of the slowest rank.
        total: with the overlap taken into account.
    """

    attention: float
    feed_forward: float
    all_reduce: float
    head: float
    overhead: float
    experts: Floats
    dispatch: Floats
    combine: Floats
    total: float

    @property
    def exchange(self) -> float:
        """All dispatches and combines."""
        return float(self.dispatch.sum() + self.combine.sum())

    @property
    def straggling(self) -> float:
        """Seconds that grow with the load of the busiest rank."""
        return float(self.experts.sum()) + self.exchange


def step_time(
    shape: ModelShape, where: Topology, layout: Layout, tokens: Tokens, busiest: Floats
) -> StepTime:
    """Time of one step.

    Args:
        shape: the model.
        where: the cluster.
        layout: the cards.
        tokens: of one rank; every rank has as many.
        busiest: [MoE layers], load of the busiest rank over the mean of a layer.
    """
    work = _expert_work(shape, where, layout, tokens, busiest)
    attention = dense.attention_seconds(tokens, shape, where, tp=layout.tp) * shape.layers
    inner = (
        dense.feed_forward_seconds(tokens.total, shape.shared_size, shape, where, tp=layout.tp)
        * shape.moe_layers
    )
    plain = shape.layers - shape.moe_layers
    inner += plain * dense.feed_forward_seconds(
        tokens.total, shape.dense_size, shape, where, tp=layout.tp
    )
    reduce = dense.all_reduce_seconds(tokens.total, shape, where, tp=layout.tp) * 2 * shape.layers
    head = dense.head_seconds(max(1.0, tokens.decode), shape, where, tp=layout.tp)
    overhead = dense.LAYER_OVERHEAD * shape.layers
    spent = StepTime(attention, inner, reduce, head, overhead, *work, total=0.0)
    return replace(spent, total=_total(spent, overlap=layout.overlap))


def _expert_work(
    shape: ModelShape, where: Topology, layout: Layout, tokens: Tokens, busiest: Floats
) -> tuple[Floats, Floats, Floats]:
    decodes = tokens.prefill == 0
    setting = ExchangeSetting(
        layout.ranks, shape.hidden, shape.experts, shape.top_k, layout.fp8_dispatch,
        shape.groups_per_token if shape.router_groups > 1 else 0,
    )  # fmt: skip
    rows = tokens.total * shape.top_k * busiest / layout.tp
    held = (shape.experts + layout.redundant) / layout.ranks
    active = np.array([active_experts(held, float(each)) for each in rows * layout.tp]) / layout.tp
    experts = expert_seconds(rows, active, shape, where, "masked" if decodes else "cutlass")
    seconds = low_latency_seconds if decodes else normal_seconds
    times = []
    for op in ("dispatch", "combine"):
        even = seconds(op, tokens.total, setting, where)
        double = seconds(op, tokens.total, setting, where, load=2.0)
        times.append(even + (double - even) * (busiest - 1.0))  # linear in the load
    return experts, times[0], times[1]


def _total(spent: StepTime, *, overlap: bool) -> float:
    computing = spent.attention + spent.feed_forward + spent.all_reduce + spent.overhead
    computing += float(spent.experts.sum())
    if overlap:
        return max(computing, spent.exchange) + spent.head
    return computing + spent.exchange + spent.head
