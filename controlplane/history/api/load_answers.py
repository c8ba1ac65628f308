"""What the load routes answer."""

from typing import Annotated

from pydantic import Field

from controlplane.history.api.dependencies import Answer
from controlplane.history.api.sum_fields import (
    CoveredEnd,
    CoveredStart,
    Expert,
    Layer,
    Ratio,
    Tier,
    Tiers,
    Until,
)

LeftOut = Annotated[
    int, Field(description="Frames not counted: an engine's newest model has another shape")
]


class LoadAnswer(Answer):
    """An expert-load matrix."""

    engines: list[str] = Field(description="Ids of the engines that were summed")
    odd_engines: list[str] = Field(
        description="Ids of those left out: their model has not the shape that most have"
    )
    tiers: Tiers
    start: CoveredStart
    end: CoveredEnd
    frames: int = Field(description="Frames behind the sum, all engines together")
    left_out: LeftOut
    layers: int = Field(description="MoE layers: rows of `counts`")
    experts: int = Field(description="Logical experts of a layer: columns of `counts`")
    counts: list[list[int]] = Field(description="Assignments by layer and expert, before capacity")


class ExpertRank(Answer):
    """One expert of one layer with its share of the layer's assignments."""

    layer: Layer
    expert: Expert
    assignments: int = Field(description="Assignments of the expert, before capacity")
    share_ratio: float = Field(description="Assignments ÷ the layer's, 0 to 1")
    over_mean_ratio: float = Field(description="Assignments ÷ the mean of the layer's experts")


class RankedAnswer(Answer):
    """Experts in order of their load relative to their layer's mean."""

    tiers: Tiers
    start: CoveredStart
    end: CoveredEnd
    frames: int = Field(description="Frames behind the sum")
    left_out: LeftOut
    experts: list[ExpertRank] = Field(description="Ordered by `over_mean_ratio`")


class Point(Answer):
    """One interval of an expert."""

    t0: float = Field(description="Start of the interval, unix seconds")
    assignments: int = Field(description="Assignments of the expert in the interval")
    share_ratio: Ratio


class ExpertSeries(Answer):
    """One expert over time, oldest first."""

    tier: Tier
    until: Until
    points: list[Point] = Field(description="One an interval that has frames")
    cursor: float | None = Field(
        default=None, description="Unix seconds: send as `start` to go on; null on the last page"
    )
