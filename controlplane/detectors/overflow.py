"""Overflow by layer, before reroute: which layer overflows, and by how much.

The SLO says whether the service is in breach; this finding says where. The interval is Student's t
over windows, since assignments of one step overflow together.
"""

import numpy as np
from scipy.special import stdtrit

from controlplane.detectors.finding import DetectorName, Finding, FindingState
from controlplane.detectors.observed import Observed
from controlplane.detectors.persistence import persistent_state
from controlplane.detectors.tau import Floats
from controlplane.history.window import EngineWindow


def layer_overflow(window: EngineWindow, min_assignments: int) -> Floats | None:
    """Overflow ratio by layer [L]; None with fewer assignments over all layers."""
    overflow, assignments = window.arrays.get("overflow"), window.arrays.get("assignments")
    if overflow is None or assignments is None:
        return None
    total = assignments.sum(axis=(0, 2)).astype(np.float64)
    if total.sum() < min_assignments or total.min() <= 0:
        return None
    ratio: Floats = overflow / total
    return ratio


def detect(observed: Observed) -> Finding:
    """Overflow of the worst layer in k of n windows."""
    settings, newest = observed.settings, observed.newest
    limit = settings.overflow_threshold
    ratios = [layer_overflow(window, settings.min_assignments) for window in observed.recent]
    known = [ratio for ratio in ratios if ratio is not None]
    if not known:
        warming = len(observed.windows) < settings.windows_needed
        return Finding(
            detector=DetectorName.OVERFLOW,
            state=FindingState.WARMING_UP if warming else FindingState.INCONCLUSIVE,
            engine_id=newest.engine_id, threshold=limit, start=observed.recent[0].start,
            end=newest.end, message=f"Fewer than {settings.min_assignments} assignments a window.",
        )  # fmt: skip
    matrix = np.stack(known)
    mean = matrix.mean(axis=0)
    layer = int(np.lexsort((mean, (matrix > limit).sum(axis=0)))[-1])
    holds = [None if ratio is None else bool(ratio[layer] > limit) for ratio in ratios]
    low, high = _interval(matrix[:, layer], settings.alpha)
    assignments = sum(int(window.arrays["assignments"].sum()) for window in observed.recent)
    return Finding(
        detector=DetectorName.OVERFLOW,
        state=persistent_state(holds, len(observed.windows), settings),
        engine_id=newest.engine_id, layer=layer, value=float(mean[layer]), low=low, high=high,
        threshold=limit, n=assignments, start=observed.recent[0].start, end=newest.end,
        message=(
            f"{mean[layer]:.1%} of the assignments of MoE layer {layer} overflow before reroute; "
            f"limit {limit:.0%}."
        ),
        evidence={"overflow_by_layer": [round(float(x), 5) for x in mean]},
    )  # fmt: skip


def _interval(values: Floats, alpha: float) -> tuple[float, float]:
    """Student's t bounds of the mean, clipped to [0, 1]; the whole range from one value."""
    if len(values) < 2:
        return 0.0, 1.0
    margin = float(stdtrit(len(values) - 1, 1.0 - alpha)) * float(values.std(ddof=1))
    margin /= float(np.sqrt(len(values)))
    centre = float(values.mean())
    return max(0.0, centre - margin), min(1.0, centre + margin)
