"""The three objectives and how they are judged; `openslo` reads and writes them as YAML."""

from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from contract.burn_windows import BURN_TIERS, BurnTier, Consumer
from contract.histograms import (
    TPOT_OBJECTIVE_SECONDS,
    TPOT_SECONDS,
    TTFT_OBJECTIVE_SECONDS,
    TTFT_SECONDS,
)
from controlplane.slo.status import SloName


class LatencyObjective(BaseModel):
    """Occurrences: at least `target` of the requests below `threshold_seconds`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    threshold_seconds: float = Field(gt=0)
    target: float = Field(default=0.99, gt=0, lt=1)

    @property
    def budget(self) -> float:
        """Allowed bad ratio."""
        return 1.0 - self.target


class OverflowObjective(BaseModel):
    """Timeslices: at least `target` of the slices below `threshold` overflow, before reroute.

    Breached when `slices_needed` of the last `slices_seen` slices are over, each of at least
    `min_assignments` (summed over layers).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    threshold: float = Field(default=0.05, gt=0, lt=1)
    target: float = Field(default=0.99, gt=0, lt=1)
    slice_seconds: float = Field(default=10.0, gt=0, le=3600)
    slices_needed: int = Field(default=3, ge=1)
    slices_seen: int = Field(default=5, ge=1, le=60)
    min_assignments: int = Field(default=16_384, ge=1)

    @model_validator(mode="after")
    def _needed_fits_in_seen(self) -> Self:
        if self.slices_needed > self.slices_seen:
            raise ValueError(
                f"slices_needed {self.slices_needed} is above slices_seen {self.slices_seen}"
            )
        return self


class SloSettings(BaseModel):
    """What `evaluate` goes by.

    Attributes:
        ttft, tpot, overflow: the objectives; latency thresholds must be histogram bounds.
        tiers: burn tiers of the latencies; the governor acts on its own tiers only.
        confidence: of the one-sided bound on the bad ratio.
        max_widen: how often a tier's windows may be lengthened to reach its events.
        stale_seconds: age of the newest data above which an SLO is stale.
        relax_seconds: calm time, in five parts, before anything may be relaxed.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    ttft: LatencyObjective = LatencyObjective(threshold_seconds=TTFT_OBJECTIVE_SECONDS)
    tpot: LatencyObjective = LatencyObjective(threshold_seconds=TPOT_OBJECTIVE_SECONDS)
    overflow: OverflowObjective = OverflowObjective()
    tiers: tuple[BurnTier, ...] = BURN_TIERS
    confidence: float = Field(default=0.99, gt=0.5, lt=1)
    max_widen: int = Field(default=10, ge=1, le=10)
    stale_seconds: float = Field(default=30.0, gt=0)
    relax_seconds: float = Field(default=300.0, gt=0)

    @model_validator(mode="after")
    def _is_exact_and_governed(self) -> Self:
        for name, objective, bounds in (
            ("ttft", self.ttft, TTFT_SECONDS),
            ("tpot", self.tpot, TPOT_SECONDS),
        ):
            if objective.threshold_seconds not in bounds:
                raise ValueError(
                    f"{name}.threshold_seconds {objective.threshold_seconds:g} is not a histogram "
                    f"bound; use one of {', '.join(f'{b:g}' for b in bounds)}"
                )
        if not any(tier.consumer is Consumer.GOVERNOR for tier in self.tiers):
            raise ValueError("tiers: at least one tier must have the consumer governor")
        return self

    @property
    def budget_seconds(self) -> int:
        """What error budgets are counted over: the longest tier's long window."""
        return max(tier.long_seconds for tier in self.tiers)

    def threshold(self, slo: SloName) -> float:
        """Seconds for latencies, ratio for overflow."""
        if slo is SloName.TTFT:
            return self.ttft.threshold_seconds
        if slo is SloName.TPOT:
            return self.tpot.threshold_seconds
        return self.overflow.threshold

    def breach_ratio(self, objective: LatencyObjective) -> float:
        """Bad ratio at which the governor's fastest tier calls a latency objective in breach."""
        burn = max(tier.burn for tier in self.tiers if tier.consumer is Consumer.GOVERNOR)
        return min(1.0, burn * objective.budget)
