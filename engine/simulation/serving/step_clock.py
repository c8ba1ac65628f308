"""How long a step of the simulated engine takes, from the cost model, remembered on a grid.

The model is evaluated once with even ranks and once with a busiest rank of twice the mean; between
and beyond it is linear in the busiest rank's load.
"""

import math
from dataclasses import dataclass

import numpy as np

from engine.simulation.cost.dense import Tokens
from engine.simulation.cost.shape import ModelShape
from engine.simulation.cost.step import Layout, step_time
from engine.simulation.cost.topology import Topology

_GRID = 0.06
"""Relative width of a cell of the grid of tokens and contexts."""


@dataclass(frozen=True, slots=True)
class StepCost:
    """Seconds of one step; `*_slope` grow with the busiest rank's load over the mean, less one.

    Attributes:
        fixed: attention, dense layers, all-reduce, overhead.
        experts, dispatch, combine: of all MoE layers, with even ranks.
        head: after the last layer.
        overlap: two micro-batches hide the shorter of exchange and computation.
    """

    fixed: float
    experts: float
    experts_slope: float
    dispatch: float
    dispatch_slope: float
    combine: float
    combine_slope: float
    head: float
    overlap: bool

    def seconds(self, busiest: float, *, slow: float = 1.0, link: float = 1.0) -> float:
        """Time of the step.

        Args:
            busiest: load of the busiest rank over the mean, averaged over layers.
            slow: how many times as long the slowest rank computes.
            link: how many times as long the slowest link takes.
        """
        more = busiest - 1.0
        computing = (self.fixed + self.experts + self.experts_slope * more) * slow
        exchange = self.dispatch + self.combine
        exchange = (exchange + (self.dispatch_slope + self.combine_slope) * more) * link
        joined = max(computing, exchange) if self.overlap else computing + exchange
        return joined + self.head


class StepClock:
    """Step costs of one engine; the same inputs give the same cost."""

    def __init__(self, shape: ModelShape, where: Topology, layout: Layout) -> None:
        self._shape = shape
        self._where = where
        self._layout = layout
        self._known: dict[tuple[int, int, int], StepCost] = {}

    def cost(self, decode: float, prefill: float, context: float) -> StepCost:
        """Cost of a step.

        Args:
            decode: tokens of decoding sequences, over the EP group.
            prefill: tokens of prompts, over the EP group.
            context: mean cached tokens of a decoding sequence.
        """
        key = _cell(decode), _cell(prefill), _cell(context)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._compute(*(_centre(cell) for cell in key))
        return found

    def _compute(self, decode: float, prefill: float, context: float) -> StepCost:
        ranks, layers = self._layout.ranks, self._shape.moe_layers
        tokens = Tokens(decode / ranks, prefill / ranks, max(context, 1.0), max(context, 1.0))
        # One layer with even ranks, one whose busiest rank has twice the mean: each stands for all.
        spent = step_time(self._shape, self._where, self._layout, tokens, np.array([1.0, 2.0]))
        (experts, more_experts), (dispatch, more_dispatch), (combine, more_combine) = (
            (float(part[0]) * layers, float(part[1] - part[0]) * layers)
            for part in (spent.experts, spent.dispatch, spent.combine)
        )
        return StepCost(
            fixed=spent.attention + spent.feed_forward + spent.all_reduce + spent.overhead,
            experts=experts, experts_slope=more_experts,
            dispatch=dispatch, dispatch_slope=more_dispatch,
            combine=combine, combine_slope=more_combine,
            head=spent.head, overlap=self._layout.overlap,
        )  # fmt: skip


def _cell(value: float) -> int:
    return -1 if value <= 0 else round(math.log(max(value, 1.0)) / _GRID)


def _centre(cell: int) -> float:
    return 0.0 if cell < 0 else math.exp(cell * _GRID)
