"""Microseconds of one MoE layer over the EP size: weight reads fall, exchange grows. Pure.

More cards leave fewer experts on each (fewer weights to read in a decode step), and put more peers
outside the NVLink domain. The minimum depends on tokens, links and skew.
"""

from dataclasses import dataclass

import numpy as np

from engine.errors import BadRequestError
from engine.simulation.cost.dense import Tokens
from engine.simulation.cost.imbalance import busiest_rank
from engine.simulation.cost.shape import ModelShape
from engine.simulation.cost.step import Layout, step_time
from engine.simulation.cost.topology import Topology


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """One EP size; microseconds of one MoE layer."""

    ranks: int
    experts: float
    dispatch: float
    combine: float
    busiest: float

    @property
    def total(self) -> float:
        """Experts, dispatch and combine in turn."""
        return self.experts + self.dispatch + self.combine


@dataclass(frozen=True, slots=True)
class UCurve:
    """The curve at a fixed number of tokens a card."""

    model: str
    topology: str
    tokens_per_card: int
    points: tuple[CurvePoint, ...]

    @property
    def minimum(self) -> CurvePoint:
        """The EP size whose layer is fastest."""
        return min(self.points, key=lambda point: point.total)

    def crossing(self, domain: int) -> tuple[CurvePoint, CurvePoint] | None:
        """The last point inside a domain and the first that leaves it, None without either."""
        inside = [point for point in self.points if point.ranks <= domain]
        outside = [point for point in self.points if point.ranks > domain]
        return (inside[-1], outside[0]) if inside and outside else None


def u_curve(
    shape: ModelShape, where: Topology, *, tokens_per_card: int = 64, most_ranks: int = 256,
    skew: float = 0.0,
) -> UCurve:  # fmt: skip
    """The curve over powers of two that divide the experts, from 1 to `most_ranks`.

    Raises:
        BadRequestError: no EP size is possible.
    """
    sizes = [
        size for size in (2**i for i in range(13))
        if size <= most_ranks and shape.experts % size == 0
    ]  # fmt: skip
    if not sizes:
        raise BadRequestError(
            f"most_ranks {most_ranks} leaves no EP size", field="most_ranks", value=most_ranks
        )
    points = tuple(_point(shape, where, size, tokens_per_card, skew) for size in sizes)
    return UCurve(shape.name, where.name, tokens_per_card, points)


def _point(
    shape: ModelShape, where: Topology, ranks: int, tokens_per_card: int, skew: float
) -> CurvePoint:
    busiest = busiest_rank(shape.experts, ranks, 0, skew)
    spent = step_time(
        shape, where, Layout(ranks), Tokens(decode=tokens_per_card),
        np.full(shape.moe_layers, busiest),
    )  # fmt: skip
    scale = 1e6 / shape.moe_layers
    return CurvePoint(
        ranks, float(spent.experts.sum()) * scale, float(spent.dispatch.sum()) * scale,
        float(spent.combine.sum()) * scale, busiest,
    )  # fmt: skip
