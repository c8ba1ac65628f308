"""Bias drift (primary): the skew that the live bias adds over the last known good one.

Fires when the lower bound of √(τ²_live − τ²_what-if(LKG)), on the same sampled tokens, exceeds the
threshold in k of n windows, in one layer. Traffic is on both sides and cancels, so the rule needs
no baseline and no assumption about the natural skew. A window whose live bias is the LKG adds
exactly nothing. Windows with too few sampled tokens are widened backwards; where that does not
help they say nothing. Cost: one [B, E] × [E, B] product per layer, window and side.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from controlplane.detectors.finding import DetectorName, Finding, FindingState
from controlplane.detectors.observed import Observed, pooled
from controlplane.detectors.persistence import persistent_state
from controlplane.detectors.settings import DetectorSettings
from controlplane.detectors.tau import (
    Floats,
    TauEstimate,
    deviation_gram,
    root,
    tau_from_gram,
    usable_buckets,
)
from controlplane.history.window import EngineWindow

LIVE = "bucket_whatif_live"
LKG = "bucket_whatif_lkg"


@dataclass(frozen=True, slots=True)
class DriftWindow:
    """One window's estimate: τ² of either side and of their difference, and sampled tokens."""

    difference: TauEstimate
    live: TauEstimate
    lkg: TauEstimate
    tokens: int


def is_last_known_good(window: EngineWindow) -> bool:
    """Whether the LKG bias was live in the whole window."""
    lkg = window.header.lkg_bias
    seen: set[str | None] = set(window.live_biases) or {window.header.live_bias}
    return lkg is not None and seen == {lkg}


def estimate(windows: Sequence[EngineWindow], settings: DetectorSettings) -> DriftWindow | None:
    """Drift over the sampled tokens of `windows` together, None when they are too few."""
    live, lkg = pooled(windows, LIVE), pooled(windows, LKG)
    if live is None or lkg is None:
        return None
    top_k = windows[-1].header.top_k
    usable = usable_buckets(live, top_k, settings.min_bucket_tokens)
    usable &= usable_buckets(lkg, top_k, settings.min_bucket_tokens)
    if int(usable.sum()) < settings.min_buckets:
        return None
    live, lkg = live[usable], lkg[usable]
    tokens = int(live.sum(axis=(0, 2)).min() / top_k)
    if tokens < settings.min_sampled_tokens:
        return None
    live_gram, lkg_gram = deviation_gram(live), deviation_gram(lkg)
    return DriftWindow(
        difference=tau_from_gram(live_gram - lkg_gram),
        live=tau_from_gram(live_gram),
        lkg=tau_from_gram(lkg_gram),
        tokens=tokens,
    )


def _estimated(group: Sequence[EngineWindow], settings: DetectorSettings) -> DriftWindow | None:
    """The same as `estimate`, once for a window that stands alone."""
    if len(group) > 1:
        return estimate(group, settings)
    minima = settings.min_sampled_tokens, settings.min_buckets, settings.min_bucket_tokens
    return group[0].remembered("drift", lambda window: estimate([window], settings), of=minima)


def _comparable(windows: Sequence[EngineWindow], lkg: str) -> list[EngineWindow]:
    """The newest run of windows that were held against the present LKG."""
    run: list[EngineWindow] = []
    for window in reversed(windows):
        if window.header.lkg_bias != lkg:
            break
        run.append(window)
    return run[::-1]


def _widened(
    windows: Sequence[EngineWindow], index: int, settings: DetectorSettings
) -> DriftWindow | None:
    for first in range(index, max(-1, index - settings.max_widen), -1):
        group = [w for w in windows[first : index + 1] if not is_last_known_good(w)]
        found = _estimated(group, settings) if group else None
        if found is not None:
            return found
    return None


def detect(observed: Observed) -> Finding:
    """Bias drift of one engine; `layer` is the worst one, `value` its added τ."""
    settings, newest = observed.settings, observed.newest
    lkg = newest.header.lkg_bias
    if lkg is None:
        return _plain(
            observed, FindingState.INCONCLUSIVE,
            "No bias is marked good, so there is nothing to hold the live one against.",
        )  # fmt: skip
    windows = _comparable(observed.windows, lkg)
    first = max(0, len(windows) - settings.windows_seen)
    known: list[tuple[int, DriftWindow | None]] = []
    for index in range(first, len(windows)):
        if is_last_known_good(windows[index]):
            known.append((index, None))
        elif (found := _widened(windows, index, settings)) is not None:
            known.append((index, found))
    estimates = [found for _, found in known if found is not None]
    if not estimates:
        return _without_estimate(observed, len(known), len(windows))
    return _judge(observed, known, estimates, len(windows))


def _judge(
    observed: Observed,
    known: list[tuple[int, DriftWindow | None]],
    estimates: list[DriftWindow],
    windows: int,
) -> Finding:
    settings = observed.settings
    lows = np.stack([found.difference.low(settings.alpha) for found in estimates])
    passes = (lows > settings.tau_threshold**2).sum(axis=0)
    newest = estimates[-1]
    layer = int(np.lexsort((newest.difference.value, passes))[-1])
    by_window: list[bool | None] = [
        False if found is None
        else bool(found.difference.low(settings.alpha)[layer] > settings.tau_threshold**2)
        for _, found in known
    ]  # fmt: skip
    state = persistent_state(by_window, windows, settings)
    value = root(newest.difference.value[layer])
    low = root(newest.difference.low(settings.alpha)[layer])
    high = root(newest.difference.high(settings.alpha)[layer])
    held = sum(1 for verdict in by_window if verdict)
    return Finding(
        detector=DetectorName.BIAS_DRIFT, state=state, engine_id=observed.newest.engine_id,
        layer=layer, value=value, low=low, high=high, threshold=settings.tau_threshold, unit="tau",
        n=newest.tokens, start=observed.recent[0].start, end=observed.newest.end,
        message=(
            f"The live bias adds skew τ {value:.2f} (at least {low:.2f}) over the last known good "
            f"in MoE layer {layer}, on {newest.tokens} sampled tokens; "
            f"above {settings.tau_threshold:.2f} in {held} of {len(by_window)} windows."
        ),
        evidence={
            "tau_live": root(newest.live.value[layer]),
            "tau_lkg": root(newest.lkg.value[layer]),
            "tau_added_by_layer": _roots(newest.difference.value),
            "tau_added_low_by_layer": _roots(newest.difference.low(settings.alpha)),
            "windows_above": held, "windows_judged": len(by_window),
            "buckets": newest.difference.buckets, "alpha": settings.alpha,
        },
    )  # fmt: skip


def _roots(squares: Floats) -> list[float]:
    return [round(float(x), 4) for x in np.sqrt(np.maximum(0.0, squares))]


def _without_estimate(observed: Observed, on_lkg: int, windows: int) -> Finding:
    settings = observed.settings
    if on_lkg and is_last_known_good(observed.newest):
        state = persistent_state([False] * on_lkg, windows, settings)
        return _plain(observed, state, "The live bias is the last known good.", value=0.0)
    state = (
        FindingState.WARMING_UP if windows < settings.windows_needed else FindingState.INCONCLUSIVE
    )
    return _plain(
        observed, state,
        f"Fewer than {settings.min_sampled_tokens} sampled tokens in {settings.min_buckets} "
        f"request buckets, even over {settings.max_widen} windows.",
    )  # fmt: skip


def _plain(
    observed: Observed, state: FindingState, message: str, *, value: float | None = None
) -> Finding:
    return Finding(
        detector=DetectorName.BIAS_DRIFT, state=state, engine_id=observed.newest.engine_id,
        value=value, low=value, high=value, threshold=observed.settings.tau_threshold, unit="tau",
        start=observed.recent[0].start, end=observed.newest.end, message=message,
    )  # fmt: skip
