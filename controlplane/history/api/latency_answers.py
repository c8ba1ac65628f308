"""What the latency route answers."""

from pydantic import Field

from controlplane.history.api.dependencies import Answer
from controlplane.history.api.sum_fields import CoveredEnd, CoveredStart, Tiers


class QuantileAnswer(Answer):
    """One quantile, and the bounds of the cell that holds it."""

    q: float = Field(description="The asked quantile, 0 to 1")
    seconds: float | None = Field(
        description="Its estimate in seconds, linear inside the cell; null without observations, "
        "and above the last bound that is known: it is then more than `low`"
    )
    low: float | None = Field(
        description="Lower bound of its cell, seconds; null without observations"
    )
    high: float | None = Field(
        description="Upper bound of its cell, seconds; null above the last, and without any"
    )


class UnderAnswer(Answer):
    """Share of observations at or under a threshold."""

    seconds: float = Field(description="The asked threshold, seconds")
    low: float = Field(description="The share is at least this, 0 to 1")
    high: float = Field(description="The share is at most this, 0 to 1")
    estimate: float = Field(description="The share, 0 to 1; interpolated unless `exact`")
    exact: bool = Field(description="The threshold is a bound of the histogram, so low = high")


class LatencyAnswer(Answer):
    """A merged histogram."""

    kind: str = Field(description="The asked kind; all are in seconds")
    observed_from: str | None = Field(
        description="Kind of an observe-only engine; null for one that sends its own frames"
    )
    exact_bounds: list[float] | None = Field(
        description="Of an observe-only engine, the bounds in seconds at which its counts are "
        "exact (as of its newest frame), at others they are interpolated; null: exact at all"
    )
    tiers: Tiers
    start: CoveredStart
    end: CoveredEnd
    n: int = Field(description="Observations, the sum of `cells`")
    bounds: list[float] = Field(description="Upper bounds of the cells, seconds")
    cells: list[int] = Field(description="Observations: one count a bound, and one above the last")
    quantiles: list[QuantileAnswer] = Field(description="One for each asked `q`")
    under: list[UnderAnswer] = Field(description="One for each asked `under`")
