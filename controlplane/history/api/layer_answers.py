"""What the routes over layers answer."""

from types import MappingProxyType

from pydantic import Field

from controlplane.history.api.dependencies import Answer
from controlplane.history.api.sum_fields import CoveredEnd, CoveredStart, Tier, Tiers, Until

COLUMN_MEANINGS = MappingProxyType(
    {
        "layer": "MoE layer, counted from 0",
        "t0": "start of the interval, unix seconds",
        "assignments": "assignments of all experts, before capacity",
        "load_cv_ratio": "standard deviation ÷ mean of the experts' assignments",
        "load_cv_debiased_ratio": "the same without the part that chance alone makes",
        "max_over_mean_ratio": "assignments of the busiest expert ÷ mean of the experts",
        "top_share_ratio": "share of assignments on the busiest 16 % of experts (rounded up), 0 "
        "to 1; 0.16 when even",
        "hot_expert": "the expert with most assignments, counted from 0",
        "overflow": "assignments that found their expert full, before anything is rerouted",
        "rerouted": "assignments that went to another expert instead",
        "spilled": "assignments that went to a copy of their expert",
        "dropped": "assignments that were not carried out",
        "executed": "assignments that were carried out",
        "dispatch_p50_seconds": "median time of the all-to-all to the experts, seconds",
        "dispatch_p99_seconds": "99 % of the all-to-alls to the experts took at most this, seconds",
        "combine_p50_seconds": "median time of the all-to-all back, seconds",
        "combine_p99_seconds": "99 % of the all-to-alls back took at most this, seconds",
    }
)
"""Columns of `layers` with their units."""
_COLUMNS = "; ".join(f"`{name}`: {meaning}" for name, meaning in COLUMN_MEANINGS.items())


class LayerSeries(Answer):
    """Rows by layer and time."""

    tier: Tier
    until: Until
    columns: list[str] = Field(description=f"Names of the values of a row. {_COLUMNS}")
    rows: list[list[float | int | None]] = Field(
        description="One an interval and layer, values as `columns` names them; null: not measured"
    )
    cursor: str | None = Field(
        description="`LAYER:T0` of the last row: send as `cursor` to go on; null on the last page"
    )


class RungOverflow(Answer):
    """Overflow that one capacity factor would have had."""

    capacity_factor: str = Field(description="The rung C, a multiple of an even share of slots")
    overflow: int = Field(description="Assignments that would have found their expert full")
    ratio: float | None = Field(
        description="The same ÷ all assignments, 0 to 1; null where there are none"
    )
    by_layer: list[int] = Field(description="The same assignments by layer")


class OverflowAnswer(Answer):
    """Overflow before reroute, counted per step: at the live C, and at every rung."""

    tiers: Tiers
    start: CoveredStart
    end: CoveredEnd
    assignments: int = Field(description="Assignments of all layers, before capacity")
    overflow: int = Field(description="Assignments that found their expert full at the live C")
    rungs: list[RungOverflow] = Field(description="Every rung, ascending; empty where not counted")
