"""Every number that a detector uses, in one frozen place."""

from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator


class DetectorSettings(BaseModel):
    """Parameters of all detectors. A policy carries one; defaults suit a fleet at 10 s windows.

    Attributes:
        window_seconds: length of the windows that the caller hands over.
        windows_needed, windows_seen: a level fires when it holds in `needed` of the last `seen`.
        history_windows: windows that the caller should hand over (the CUSUM's memory).
        alpha: one-sided error of a window's lower bound; t quantiles, since buckets are few.
        tau_threshold: skew that the bias must add before it is called drift.
        min_sampled_tokens: sampled tokens that a what-if estimate needs.
        min_buckets: request-hash buckets with tokens that a cross-bucket estimate needs.
        min_bucket_tokens: tokens that make a bucket usable.
        max_widen: windows that may be pooled to reach those minima.
        card_cv_threshold: debiased coefficient of variation over ranks.
        min_window_tokens: tokens below which a window's counts say nothing.
        cusum_kappa, cusum_h: drift allowance and threshold of the one-sided CUSUM, in sigmas.
        psi_threshold: effect gate of the change detector (population stability index, debiased).
        min_reference_windows: windows that a load reference needs.
        fdr_q: false discovery rate of the expert list (Benjamini-Hochberg).
        hot_share_ratio, dead_share_ratio: share against the reference that counts as an effect.
        bias_distance_threshold: L∞ distance of the live bias to the last known good.
        overflow_threshold: overflow ratio before reroute.
        min_assignments: assignments below which an overflow ratio says nothing.
        coverage_ratio: part of a window that frames must cover.
        straggler_wait_ratio: a straggler waits less than this part of its peers' median wait.
        straggler_min_wait_ratio: part of the time that the peers must wait for it to matter.
        straggler_load_ratio: share of the load above which the rank is loaded, not slow.
        attribution_ratio: part of the excess χ² that the LKG must remove to blame the bias.
        trend_min_windows, trend_min_hours, trend_rise: slow trend: evidence and effect.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    window_seconds: float = Field(default=10.0, gt=0, le=3600)
    windows_needed: int = Field(default=3, ge=1)
    windows_seen: int = Field(default=5, ge=1, le=60)
    history_windows: int = Field(default=20, ge=1, le=600)
    alpha: float = Field(default=0.001, gt=0, lt=0.5)
    tau_threshold: float = Field(default=0.3, gt=0)
    min_sampled_tokens: int = Field(default=512, ge=1)
    min_buckets: int = Field(default=4, ge=3)
    min_bucket_tokens: int = Field(default=8, ge=1)
    max_widen: int = Field(default=10, ge=1)
    card_cv_threshold: float = Field(default=0.3, gt=0)
    min_window_tokens: int = Field(default=256, ge=1)
    cusum_kappa: float = Field(default=1.0, gt=0)
    cusum_h: float = Field(default=7.5, gt=0)
    psi_threshold: float = Field(default=0.1, gt=0)
    min_reference_windows: int = Field(default=3, ge=1)
    fdr_q: float = Field(default=0.01, gt=0, lt=1)
    hot_share_ratio: float = Field(default=2.0, gt=1)
    dead_share_ratio: float = Field(default=0.1, ge=0, lt=1)
    bias_distance_threshold: float = Field(default=0.05, gt=0)
    overflow_threshold: float = Field(default=0.05, gt=0, lt=1)
    min_assignments: int = Field(default=16_384, ge=1)
    coverage_ratio: float = Field(default=0.8, gt=0, le=1)
    straggler_wait_ratio: float = Field(default=0.5, gt=0, lt=1)
    straggler_min_wait_ratio: float = Field(default=0.05, gt=0, lt=1)
    straggler_load_ratio: float = Field(default=1.2, gt=1)
    attribution_ratio: float = Field(default=0.7, gt=0, le=1)
    trend_min_windows: int = Field(default=24, ge=8)
    trend_min_hours: float = Field(default=12.0, gt=0)
    trend_rise: float = Field(default=0.05, gt=0)

    @model_validator(mode="after")
    def _needed_fits_in_seen(self) -> Self:
        if self.windows_needed > self.windows_seen:
            raise ValueError(
                f"windows_needed {self.windows_needed} is above windows_seen {self.windows_seen}"
            )
        return self
