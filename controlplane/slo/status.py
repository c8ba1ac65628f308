"""The word of an SLO: met, breached, or could not tell."""

from enum import StrEnum

from pydantic import BaseModel, ConfigDict


class SloName(StrEnum):
    """The three dimensions."""

    TTFT = "ttft"
    TPOT = "tpot"
    OVERFLOW = "overflow"


class SloState(StrEnum):
    """Inconclusive means too few events; stale means no telemetry. Neither is ever "met"."""

    MET = "met"
    BREACHED = "breached"
    INCONCLUSIVE = "inconclusive"
    STALE = "stale"


class TierStatus(BaseModel):
    """One burn tier: bad ÷ total and burn over both windows."""

    model_config = ConfigDict(frozen=True)

    tier: str
    state: SloState
    short_seconds: int
    long_seconds: int
    burn_short: float
    burn_long: float
    bad: int
    total: int
    bad_ratio_low: float
    threshold_burn: float


class ErrorBudget(BaseModel):
    """What is left of an objective's error budget, over all that the longest tier looks back on.

    Attributes:
        remaining_ratio: 1 untouched, 0 spent, negative beyond.
        seconds: how far back the counts go; less than the longest tier while less is stored.
    """

    model_config = ConfigDict(frozen=True)

    remaining_ratio: float
    seconds: float


class SloStatus(BaseModel):
    """One SLO of one engine at one moment.

    Attributes:
        state: what the governor goes by (the act tiers; overflow: 3 of 5 ten-second slices).
        objective: target share of good events.
        threshold: seconds for latencies, ratio for overflow.
        value: p99 in seconds (from merged histograms), or overflow ratio; None without events.
        value_is_more: the p99 lies above the last bound of what measures it (another engine's
            histogram may end sooner than ours): `value` is that bound, and the truth is more.
        room_ratio: 1 - value/threshold, negative when over it.
        budget_remaining_ratio: error budget left of the last ten minutes alone, which the governor
            goes by; None while inconclusive or stale, and, unless breached, below as many events
            as make one bad one affordable.
        budget: error budget left over the days that are stored, which people go by; None while
            stale, or below as many events as make one bad one affordable.
        n: events behind `value`.
        interpolated: the counts over the threshold are interpolated: they come from another
            engine's histogram, which has no bound at the threshold.
        calm: long and far enough inside the objective that something may be relaxed.
    """

    model_config = ConfigDict(frozen=True)

    slo: SloName
    state: SloState
    objective: float
    threshold: float
    value: float | None
    value_is_more: bool = False
    room_ratio: float | None
    budget_remaining_ratio: float | None
    n: int
    budget: ErrorBudget | None = None
    tiers: tuple[TierStatus, ...] = ()
    slices: tuple[float | None, ...] = ()
    message: str = ""
    interpolated: bool = False
    calm: bool = False
