"""What a detector says. Warming up and inconclusive are results of their own, never "clear"."""

from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict


class FindingState(StrEnum):
    """The word of a detector about one engine (and layer)."""

    WARMING_UP = "warming_up"
    INCONCLUSIVE = "inconclusive"
    CLEAR = "clear"
    FIRING = "firing"


class DetectorName(StrEnum):
    """Every detector, one file each."""

    BIAS_DRIFT = "bias_drift"
    CARD_LEVEL = "card_level"
    LOAD_CHANGE = "load_change"
    HOT_EXPERTS = "hot_experts"
    SLOW_TREND = "slow_trend"
    BIAS_DISTANCE = "bias_distance"
    OVERFLOW = "overflow"
    TELEMETRY_GAP = "telemetry_gap"
    STRAGGLER = "straggler"


class Finding(BaseModel):
    """One statement with its evidence.

    Attributes:
        detector, state, engine_id: what, how, where.
        layer: worst MoE layer, None for a statement on the whole engine.
        value, low, high: estimate and its interval, in `unit`.
        threshold: what `low` (or `value`) was held against.
        n: events behind the estimate (tokens, slices, frames).
        start, end: unix seconds of the evidence.
        message: one plain sentence for an operator.
        evidence: numbers for the decision page; JSON values only.
    """

    model_config = ConfigDict(frozen=True)

    detector: DetectorName
    state: FindingState
    engine_id: str
    layer: int | None = None
    value: float | None = None
    low: float | None = None
    high: float | None = None
    threshold: float | None = None
    unit: str = "ratio"
    n: int = 0
    start: float = 0.0
    end: float = 0.0
    message: str = ""
    evidence: dict[str, Any] = {}


class Cause(StrEnum):
    """What a skew is attributed to."""

    BIAS = "bias"
    TRAFFIC = "traffic"
    PLACEMENT = "placement"
    SLOW_RANK = "slow_rank"
    UNKNOWN = "unknown"


class Attribution(BaseModel):
    """Why the load moved, with what was held against what."""

    model_config = ConfigDict(frozen=True)

    cause: Cause
    bias_changed: bool
    excess_removed_ratio: float | None = None
    message: str = ""
    evidence: dict[str, Any] = {}
