"""All detectors on one engine's windows, and one attribution. Pure: the same in, the same out."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from controlplane.detectors import (
    bias_distance,
    bias_drift,
    card_level,
    hot_experts,
    load_change,
    overflow,
    slow_trend,
    straggler,
    telemetry_gap,
)
from controlplane.detectors.attribution import attribute
from controlplane.detectors.finding import Attribution, Cause, DetectorName, Finding
from controlplane.detectors.observed import Detect, Observed
from controlplane.detectors.reference import LoadReference
from controlplane.detectors.settings import DetectorSettings
from controlplane.history.window import EngineWindow

DETECTORS: Mapping[DetectorName, Detect] = MappingProxyType(
    {
        DetectorName.BIAS_DRIFT: bias_drift.detect,
        DetectorName.CARD_LEVEL: card_level.detect,
        DetectorName.LOAD_CHANGE: load_change.detect,
        DetectorName.HOT_EXPERTS: hot_experts.detect,
        DetectorName.SLOW_TREND: slow_trend.detect,
        DetectorName.BIAS_DISTANCE: bias_distance.detect,
        DetectorName.OVERFLOW: overflow.detect,
        DetectorName.TELEMETRY_GAP: telemetry_gap.detect,
        DetectorName.STRAGGLER: straggler.detect,
    }
)


def evaluate(
    windows: Sequence[EngineWindow],
    reference: LoadReference | None,
    settings: DetectorSettings,
    *,
    long_windows: Sequence[EngineWindow] = (),
) -> tuple[tuple[Finding, ...], Attribution]:
    """Findings of every detector in a fixed order, and what they are attributed to.

    Args:
        windows: consecutive windows of one engine, oldest first, each about
            `settings.window_seconds`; up to `settings.history_windows` are used.
        reference: from `reference.build_reference` when the bias was marked good, or None.
        settings: the parameters.
        long_windows: coarse windows for the slow trend.
    """
    if not windows:
        return (), Attribution(
            cause=Cause.UNKNOWN, bias_changed=False, message="No telemetry has been seen yet."
        )
    observed = Observed(
        windows=windows, reference=reference, settings=settings, long_windows=long_windows
    )
    findings = {name: detect(observed) for name, detect in DETECTORS.items()}
    return tuple(findings.values()), attribute(observed, findings)
