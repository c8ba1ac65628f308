"""Slow trend: τ rising over hours, too slowly for a level or a change to notice. A ticket, no act.

Over coarse windows: τ by layer from the cross-bucket covariance, smoothed (EWMA 0.05) for the
effect, and the slope of a straight line with its t bound for the evidence. Fires when the smoothed
τ has risen by `trend_rise` and the slope is surely positive.
"""

import numpy as np
from scipy.special import stdtrit

from controlplane.detectors.finding import DetectorName, Finding, FindingState
from controlplane.detectors.observed import Observed
from controlplane.detectors.tau import Floats, cross_bucket_tau

SMOOTHING = 0.05


def smoothed(series: Floats) -> Floats:
    """EWMA along the first axis [W, L], started at the mean of the first eight rows."""
    level = series[:8].mean(axis=0)
    rows = np.empty_like(series)
    for index, row in enumerate(series):
        level = level + SMOOTHING * (row - level)
        rows[index] = level
    return rows


def slope(hours: Floats, series: Floats, alpha: float) -> tuple[Floats, Floats]:
    """Least-squares slope per hour of [W, L] and its one-sided lower bound, [L]."""
    centred = hours - hours.mean()
    weight = float((centred**2).sum())
    rise = centred @ series / weight
    residual = series - series.mean(axis=0) - centred[:, None] * rise
    freedom = len(hours) - 2
    error = np.sqrt((residual**2).sum(axis=0) / freedom / weight)
    return rise, rise - float(stdtrit(freedom, 1.0 - alpha)) * error


def detect(observed: Observed) -> Finding:
    """Trend of τ over `long_windows`; warming up until they span enough hours."""
    settings = observed.settings
    hours, rows = [], []
    for window in observed.long_windows:
        buckets = window.arrays.get("bucket_assignments")
        found = None if buckets is None else cross_bucket_tau(
            buckets, top_k=window.header.top_k, min_buckets=settings.min_buckets,
            min_bucket_tokens=settings.min_bucket_tokens,
        )  # fmt: skip
        if found is not None:
            hours.append(window.start / 3600.0)
            rows.append(np.sqrt(np.maximum(0.0, found.value)))
    span = hours[-1] - hours[0] if hours else 0.0
    if len(rows) < settings.trend_min_windows or span < settings.trend_min_hours:
        return Finding(
            detector=DetectorName.SLOW_TREND, state=FindingState.WARMING_UP,
            engine_id=observed.newest.engine_id, threshold=settings.trend_rise, unit="tau",
            n=len(rows), start=observed.windows[0].start, end=observed.newest.end,
            message=f"{span:.1f} h of history; {settings.trend_min_hours:g} h are needed.",
        )  # fmt: skip
    return _judge(observed, np.asarray(hours), np.stack(rows), span)


def _judge(observed: Observed, hours: Floats, series: Floats, span: float) -> Finding:
    settings = observed.settings
    level = smoothed(series)
    risen = level[-1] - level[0]
    per_hour, low = slope(hours, series, settings.alpha)
    firing = (low > 0) & (risen > settings.trend_rise)
    layer = int(np.lexsort((risen, firing))[-1])
    return Finding(
        detector=DetectorName.SLOW_TREND,
        state=FindingState.FIRING if bool(firing.any()) else FindingState.CLEAR,
        engine_id=observed.newest.engine_id, layer=layer, value=float(risen[layer]),
        low=float(low[layer]) * span, high=float(2.0 * per_hour[layer] - low[layer]) * span,
        threshold=settings.trend_rise, unit="tau", n=len(series),
        start=observed.long_windows[0].start, end=observed.long_windows[-1].end,
        message=(
            f"τ of MoE layer {layer} rose by {risen[layer]:.3f} in {span:.0f} h "
            f"({per_hour[layer]:.4f} an hour)."
        ),
        evidence={"risen_by_layer": [round(float(x), 4) for x in risen]},
    )  # fmt: skip
