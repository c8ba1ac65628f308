"""k of n: a level must hold in several windows, and windows that cannot say are not "clear"."""

from collections.abc import Sequence

from controlplane.detectors.finding import FindingState
from controlplane.detectors.settings import DetectorSettings


def persistent_state(
    holds: Sequence[bool | None], windows: int, settings: DetectorSettings
) -> FindingState:
    """State from the newest `windows_seen` verdicts (None = that window could not say).

    Fires on `windows_needed` that hold. Otherwise clear only when that many could say; before so
    many windows exist the detector is warming up.
    """
    recent = list(holds)[-settings.windows_seen :]
    if sum(1 for verdict in recent if verdict) >= settings.windows_needed:
        return FindingState.FIRING
    if sum(1 for verdict in recent if verdict is not None) >= settings.windows_needed:
        return FindingState.CLEAR
    if windows < settings.windows_needed:
        return FindingState.WARMING_UP
    return FindingState.INCONCLUSIVE
