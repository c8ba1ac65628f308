"""Fields that several answers share, with their units: what a sum covers."""

from typing import Annotated

from pydantic import Field

Tiers = Annotated[
    dict[int, int],
    Field(
        description="Length of a stored interval in seconds (1 = frames) → how many of that length "
        "were summed"
    ),
]
CoveredStart = Annotated[float, Field(description="Start of what was summed, unix seconds")]
CoveredEnd = Annotated[float, Field(description="End of what was summed, unix seconds")]
Layer = Annotated[int, Field(description="MoE layer, counted from 0")]
Expert = Annotated[int, Field(description="Logical expert of the layer, counted from 0")]
Tier = Annotated[int, Field(description="Length of an interval in seconds: 10, 60 or 3600")]
Until = Annotated[
    float | None,
    Field(
        description="How far the series goes, later pages included, unix seconds: an interval that "
        "ends later is partial, its counts are those of its first part. Null for an empty series"
    ),
]
Ratio = Annotated[
    float | None, Field(description="Assignments ÷ the layer's, 0 to 1; null where it has none")
]
