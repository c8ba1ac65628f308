"""Telemetry gap: frames that were lost, or time that no frame covers. A gap is never "clear".

Time between two windows counts: where every frame is missing there is no window at all (an outage,
a restart, a clock that jumped).
"""

from controlplane.detectors.finding import DetectorName, Finding, FindingState
from controlplane.detectors.observed import Observed


def detect(observed: Observed) -> Finding:
    """Lost frames and coverage of the newest windows. `value` is the covered ratio."""
    settings, newest = observed.settings, observed.newest
    span = newest.end - observed.recent[0].start
    covered = sum(window.covered_seconds for window in observed.recent)
    missing = sum(window.missing for window in observed.recent)
    ratio = min(1.0, covered / span) if span > 0 else 0.0
    if missing or ratio < settings.coverage_ratio:
        state = FindingState.FIRING
    elif len(observed.windows) < settings.windows_needed:
        state = FindingState.WARMING_UP
    else:
        state = FindingState.CLEAR
    return Finding(
        detector=DetectorName.TELEMETRY_GAP, state=state, engine_id=newest.engine_id, value=ratio,
        low=ratio, high=ratio, threshold=settings.coverage_ratio, unit="covered",
        n=sum(window.frames for window in observed.recent), start=observed.recent[0].start,
        end=newest.end,
        message=f"Frames cover {ratio:.0%} of {span:.0f} s; {missing} frames are known to be lost.",
        evidence={"missing_frames": missing, "covered_seconds": covered},
    )  # fmt: skip
