"""What a snapshot says of load and bias, summed from windows. Pure."""

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from contract.frame import HISTOGRAM_BOUNDS
from contract.runtime_config import CAPACITY_LADDER
from controlplane.history.observed import Observed, observed_of
from controlplane.history.window import EngineWindow
from controlplane.policy.policy import Policy
from controlplane.policy.snapshot import BiasFacts, LoadFacts
from controlplane.slo.histogram import merged

Floats = npt.NDArray[np.float64]


def slots_at_rung(tokens: int, *, experts: int, top_k: int, cap_min: int) -> dict[str, int]:
    """Slots of one expert in a step of `tokens`: max(cap_min, ceil(C·T·k/E)), exact rationals."""
    load = Fraction(tokens * top_k, experts)
    return {rung: max(cap_min, math.ceil(Fraction(rung) * load)) for rung in CAPACITY_LADDER}


def is_fresh(age: float | None, stale_seconds: float) -> bool:
    """Whether data of this age may be acted on: not old, and not ahead of this clock.

    An engine whose clock runs ahead would otherwise hide its silence for as long.
    """
    return age is not None and abs(age) <= stale_seconds


def load_facts(windows: Sequence[EngineWindow], policy: Policy) -> LoadFacts:
    """Level of the newest windows, and the peak of overflow-at-rung over the calm time.

    Args:
        windows: consecutive windows of one engine, oldest first; may be empty.
        policy: gives how many windows are "now", and the length of the calm time.
    """
    if not windows:
        return LoadFacts()
    recent = windows[-policy.detectors.windows_seen :]
    header = recent[-1].header
    observed = observed_of(header)
    if observed is not None:
        return _watched(recent, observed)
    tokens, steps = sum(w.total_tokens for w in recent), sum(w.steps for w in recent)
    step_tokens = tokens / steps if steps else 0.0
    kept = sum(w.gate_mass_kept for w in recent)
    mass = sum(w.gate_mass_total for w in recent)
    probes = [w.header.probe_nll for w in recent if w.header.probe_nll is not None]
    ratios = overflow_at_rung(recent)
    since = recent[-1].end - policy.slo.relax_seconds
    calm = [w for w in windows if w.end > since]
    live = header.config.capacity_factor
    return LoadFacts(
        assignments=_assignments(recent),
        overflow_ratio=_live_overflow(recent, None if live is None else ratios.get(live)),
        overflow_at_rung=ratios,
        overflow_at_rung_peak=_peak(calm, policy.detectors.min_assignments),
        slots_at_rung=slots_at_rung(
            round(step_tokens), experts=header.experts, top_k=header.top_k,
            cap_min=header.config.cap_min,
        ),
        gate_mass_kept_ratio=kept / mass if mass > 0 else None,
        tokens_per_step=step_tokens,
        prefill_token_share=sum(w.tokens[0] for w in recent) / tokens if tokens else 0.0,
        running=_running(recent),
        queued=header.gauges.queued,
        queue_share_of_ttft=_queue_share(recent),
        probe_nll=probes[-1] if probes else None,
    )  # fmt: skip


def _watched(recent: Sequence[EngineWindow], observed: Observed) -> LoadFacts:
    """Of an engine that is read by its metrics: no steps, no capacity; what it lacks is None."""
    lacks = observed.missing
    return LoadFacts(
        tokens_per_step=None, prefill_token_share=None,
        running=None if "running" in lacks else _running(recent),
        queued=None if "queued" in lacks else recent[-1].header.gauges.queued,
        queue_share_of_ttft=_queue_share(recent),
    )  # fmt: skip


def _running(recent: Sequence[EngineWindow]) -> int:
    return round(float(np.mean([w.header.gauges.running for w in recent])))


def bias_facts(windows: Sequence[EngineWindow]) -> BiasFacts:
    """The bias as the newest frame says, and since when (of these windows) it is live."""
    if not windows:
        return BiasFacts()
    header = windows[-1].header
    since = windows[-1].start
    for window in reversed(windows):
        if window.header.live_bias != header.live_bias:
            break
        since = window.start
    return BiasFacts(
        configured=header.configured_bias, live=header.live_bias,
        last_known_good=header.lkg_bias, live_since=since,
    )  # fmt: skip


def overflow_at_rung(windows: Sequence[EngineWindow]) -> dict[str, float]:
    """Overflow ratio over all layers at every rung, as counted per step; empty without counts."""
    total = _assignments(windows)
    found = [w.overflow_by_rung for w in windows if w.overflow_by_rung is not None]
    if not found or total == 0:
        return {}
    by_rung = np.add.reduce(found)
    return {
        rung: float(count) / total for rung, count in zip(CAPACITY_LADDER, by_rung, strict=True)
    }


def _assignments(windows: Sequence[EngineWindow]) -> int:
    return sum(int(w.assigned.sum()) for w in windows if w.assigned is not None)


def _live_overflow(windows: Sequence[EngineWindow], at_rung: float | None) -> float | None:
    total = _assignments(windows)
    found = [int(w.arrays["overflow"].sum()) for w in windows if "overflow" in w.arrays]
    return sum(found) / total if found and total else at_rung


def _peak(windows: Sequence[EngineWindow], min_assignments: int) -> dict[str, float]:
    """Largest overflow ratio of one window at every rung, of windows that hold enough."""
    rows = [
        w.overflow_by_rung / w.assigned.sum() for w in windows
        if w.assigned is not None and w.overflow_by_rung is not None
        and w.assigned.sum() >= max(1, min_assignments)
    ]  # fmt: skip
    if not rows:
        return {}
    peaks = np.maximum.reduce(rows)
    return {rung: float(peak) for rung, peak in zip(CAPACITY_LADDER, peaks, strict=True)}


def _queue_share(windows: Sequence[EngineWindow]) -> float | None:
    queue, ttft = _mean_seconds(windows, "queue_time", "queue"), _mean_seconds(windows, "ttft")
    if queue is None or ttft is None or ttft <= 0:
        return None
    return min(1.0, queue / ttft)


def _mean_seconds(
    windows: Sequence[EngineWindow], name: str, bounds_name: str | None = None
) -> float | None:
    """Mean of a histogram by the middles of its cells; the last cell counts as its bound."""
    bounds = HISTOGRAM_BOUNDS[bounds_name or name]
    cells = merged(windows, name, bounds=bounds)
    total = float(cells.sum())
    if total <= 0:
        return None
    edges = np.asarray([0.0, *bounds])
    middles: Floats = np.append((edges[:-1] + edges[1:]) / 2.0, bounds[-1])
    return float((cells * middles).sum() / total)
