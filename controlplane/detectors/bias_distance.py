"""Bias distance: L∞ of the live bias to the last known good, as the engine reports it.

Cheap and early, and blind to what the bias does: it informs. The default limit is that of the
reference (mechanisms § 3).
"""

from controlplane.detectors.finding import DetectorName, Finding, FindingState
from controlplane.detectors.observed import Observed
from controlplane.detectors.persistence import persistent_state


def detect(observed: Observed) -> Finding:
    """Distance in the newest window, held against the limit in k of n windows."""
    settings, newest = observed.settings, observed.newest
    limit = settings.bias_distance_threshold
    holds = [
        None if window.header.lkg_bias is None else window.header.bias_distance > limit
        for window in observed.recent
    ]
    if newest.header.lkg_bias is None:
        state, value, message = FindingState.INCONCLUSIVE, None, "No bias is marked good."
    else:
        state = persistent_state(holds, len(observed.windows), settings)
        value = newest.header.bias_distance
        message = f"The live bias is {value:.4f} (L∞) from the last known good; limit {limit:g}."
    return Finding(
        detector=DetectorName.BIAS_DISTANCE, state=state, engine_id=newest.engine_id, value=value,
        low=value, high=value, threshold=limit, unit="logit", n=len(holds),
        start=observed.recent[0].start, end=newest.end, message=message,
        evidence={"live": newest.header.live_bias, "last_known_good": newest.header.lkg_bias},
    )  # fmt: skip
