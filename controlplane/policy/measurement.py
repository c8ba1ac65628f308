"""What a verification compares: one engine over some seconds, under one generation."""

from collections.abc import Sequence

import numpy as np
from pydantic import BaseModel, ConfigDict

from contract.frame import HISTOGRAM_BOUNDS
from contract.runtime_config import RuntimeConfig
from controlplane.history.latency import quantile
from controlplane.history.window import EngineWindow
from controlplane.slo.histogram import merged
from controlplane.slo.latency import bad_and_total
from controlplane.slo.settings import SloSettings
from controlplane.slo.status import SloName


class Latency(BaseModel):
    """Requests of one latency SLO: over the threshold, all, and p99 in seconds for display.

    `p99_is_more`: it lies above the last bound of the histogram, which `p99` is then.
    `cells` counts requests by cell of the latency's histogram; empty in old evidence.
    """

    model_config = ConfigDict(frozen=True)

    bad: int = 0
    total: int = 0
    p99: float | None = None
    p99_is_more: bool = False
    cells: tuple[int, ...] = ()

    @property
    def bad_ratio(self) -> float:
        """Bad ÷ total, 0 without requests."""
        return self.bad / self.total if self.total else 0.0


class Measurement(BaseModel):
    """One side of a comparison. Stored with the action as its evidence.

    Attributes:
        seconds: covered time. generation: None for all generations.
        config, live_bias: of the newest frame.
        ttft, tpot: requests admitted under the generation.
        overflow, assignments: of the generation, before reroute.
        overflow_slices: the ratio of each window, for its spread.
        share_distance: largest total variation over layers between live and what-if shares; 0 when
            the last known good is live, None without a sample.
        gate_mass_kept_ratio, probe_nll: guards of quality.
        breached: SLOs in breach at the time.
    """

    model_config = ConfigDict(frozen=True)

    seconds: float = 0.0
    generation: int | None = None
    config: RuntimeConfig | None = None
    live_bias: str | None = None
    ttft: Latency = Latency()
    tpot: Latency = Latency()
    overflow: int = 0
    assignments: int = 0
    overflow_slices: tuple[float, ...] = ()
    share_distance: float | None = None
    gate_mass_kept_ratio: float | None = None
    probe_nll: float | None = None
    breached: tuple[SloName, ...] = ()

    @property
    def overflow_ratio(self) -> float:
        """Overflow ÷ assignments, 0 without assignments."""
        return self.overflow / self.assignments if self.assignments else 0.0

    def latency(self, name: SloName) -> Latency:
        """TTFT or TPOT."""
        return self.ttft if name is SloName.TTFT else self.tpot


def measure(
    windows: Sequence[EngineWindow],
    slo: SloSettings,
    *,
    generation: int | None = None,
    breached: Sequence[SloName] = (),
) -> Measurement:
    """Sum windows into one side of a comparison.

    Args:
        windows: of one engine, oldest first. For the side after a change: windows that start once
            it had settled. Empty gives an empty measurement.
        slo: gives the thresholds.
        generation: only requests admitted, and steps run, under this generation; None for all.
        breached: SLOs in breach at the time.
    """
    if not windows:
        return Measurement(generation=generation, breached=tuple(breached))
    header = windows[-1].header
    mass = sum(window.gate_mass_total for window in windows)
    kept = sum(window.gate_mass_kept for window in windows)
    probes = [w.header.probe_nll for w in windows if w.header.probe_nll is not None]
    slices = [_overflow(window, generation) for window in windows]
    return Measurement(
        seconds=sum(window.covered_seconds for window in windows), generation=generation,
        config=header.config, live_bias=header.live_bias,
        ttft=_latency(windows, "ttft", slo.ttft.threshold_seconds, generation),
        tpot=_latency(windows, "tpot", slo.tpot.threshold_seconds, generation),
        overflow=sum(overflow for overflow, _ in slices),
        assignments=sum(total for _, total in slices),
        overflow_slices=tuple(overflow / total for overflow, total in slices if total),
        share_distance=_share_distance(windows),
        gate_mass_kept_ratio=kept / mass if mass > 0 else None,
        probe_nll=probes[-1] if probes else None, breached=tuple(breached),
    )  # fmt: skip


def _latency(
    windows: Sequence[EngineWindow], name: str, threshold: float, generation: int | None
) -> Latency:
    chosen = None if generation is None else (generation,)
    bad, total = bad_and_total(windows, name, threshold, generations=chosen)
    cells = merged(windows, name, generations=chosen)
    p99 = quantile(cells, HISTOGRAM_BOUNDS[name], 0.99)
    return Latency(
        bad=bad, total=total, p99=None if p99 is None else p99.at_least,
        p99_is_more=p99 is not None and p99.value is None,
        cells=tuple(int(count) for count in cells),
    )  # fmt: skip


def _overflow(window: EngineWindow, generation: int | None) -> tuple[int, int]:
    """Overflow and assignments of one window, by live generation where one is asked for."""
    if generation is None:
        if "overflow" not in window.arrays or "assignments" not in window.arrays:
            return 0, 0
        return int(window.arrays["overflow"].sum()), int(window.arrays["assignments"].sum())
    arrays = window.by_generation.get(generation, {})
    if "generation_overflow" not in arrays or "generation_assignments" not in arrays:
        return 0, 0
    return int(arrays["generation_overflow"].sum()), int(arrays["generation_assignments"].sum())


def _share_distance(windows: Sequence[EngineWindow]) -> float | None:
    newest = windows[-1]
    if newest.header.lkg_bias is not None and newest.header.live_bias == newest.header.lkg_bias:
        return 0.0
    live, lkg = newest.arrays.get("whatif_live"), newest.arrays.get("whatif_lkg")
    if live is None or lkg is None:
        return None
    totals = live.sum(axis=1), lkg.sum(axis=1)
    rows = (totals[0] > 0) & (totals[1] > 0)
    if not rows.any():
        return None
    apart = live[rows] / totals[0][rows, None] - lkg[rows] / totals[1][rows, None]
    return float(np.abs(apart).sum(axis=1).max() / 2.0)
