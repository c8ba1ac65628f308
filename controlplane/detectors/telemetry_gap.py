"""Telemetry gap: frames that were lost, or time that no frame covers. A gap is never "clear".

Time between two windows counts: where every frame is missing there is no window at all (an outage,
a restart, a clock that jumped). Time before the first window that is known does not: an engine that
is new, or new to this control plane, begins inside one.
"""

from controlplane.detectors.finding import DetectorName, Finding, FindingState
from controlplane.detectors.observed import Observed


def detect(observed: Observed) -> Finding:
    """Lost frames and coverage of the newest windows. `value` is the covered ratio."""
    settings, newest = observed.settings, observed.newest
    start = _start(observed)
    span = newest.end - start
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
        n=sum(window.frames for window in observed.recent), start=start,
        end=newest.end,
        message=f"Frames cover {ratio:.0%} of {span:.0f} s; {missing} frames are known to be lost.",
        evidence={"missing_frames": missing, "covered_seconds": covered},
    )  # fmt: skip


def _start(observed: Observed) -> float:
    """From when on frames are due: inside the first window that is known, from its first frame."""
    first = observed.recent[0]
    if first is not observed.windows[0]:
        return first.start
    return first.end - min(first.covered_seconds, first.end - first.start)
