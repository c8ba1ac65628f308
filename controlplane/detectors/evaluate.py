"""All detectors on one engine's windows, and one attribution. Pure: the same in, the same out."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
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
from controlplane.detectors.topology import of_topology
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

    The newest window's header says which topology is judged: windows of another are left out.

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
    newest = windows[-1].header
    if reference is not None and reference.shares.shape != (newest.layers, newest.experts):
        reference = None  # of another model
    alike = Observed(
        windows=of_topology(windows, newest), reference=reference, settings=settings,
        long_windows=of_topology(long_windows, newest),
    )  # fmt: skip
    # Whether frames came is asked of every window, whichever model it was.
    every = replace(alike, windows=windows)
    findings = {
        name: detect(every if name is DetectorName.TELEMETRY_GAP else alike)
        for name, detect in DETECTORS.items()
    }
    return tuple(findings.values()), attribute(alike, findings)
