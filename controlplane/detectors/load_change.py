"""Change: expert counts against the LKG reference shares, as χ² → normal score → CUSUM.

Behaviour: with κ = 1 and h = 7.5 an independent normal null alarms once in 1.5e7 windows a layer
(once a month for 58 layers at 10 s); a 3 sigma shift takes about 4 windows. Real windows are
correlated, so scores are standardised by the reference's own median and MAD, χ² is divided by the
design effect between buckets, and nothing fires without an effect: PSI above its gate. The CUSUM
is recomputed from the windows given, so the detector has no state. It never re-baselines. Alone it
never touches the bias: traffic changes loads too. Numbers: reference, governance § 8.3 (D2).
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from controlplane.detectors import chi_square
from controlplane.detectors.finding import DetectorName, Finding, FindingState
from controlplane.detectors.observed import Observed, counts_of
from controlplane.detectors.reference import LoadReference
from controlplane.detectors.settings import DetectorSettings
from controlplane.history.window import EngineWindow

Floats = npt.NDArray[np.float64]


def excess(window: EngineWindow, reference: LoadReference) -> Floats:
    """χ² of one window's counts against the reference [L], before the design effect."""

    def measured(one: EngineWindow) -> Floats:
        return chi_square.pearson(
            counts_of(one), reference.shares, top_k=reference.top_k,
            reference_total=reference.totals,
        )  # fmt: skip

    return window.remembered("excess", measured, of=reference.identity)


def change_scores(
    windows: Sequence[EngineWindow], reference: LoadReference, effect: Floats
) -> Floats:
    """Standardised normal scores [W, L] of windows that hold assignments."""
    chi = np.stack([excess(window, reference) for window in windows])
    scores = chi_square.normal_score(chi / effect, reference.shares.shape[1] - 1)
    standard: Floats = (scores - reference.score_centre) / reference.score_spread
    return standard


def change_level(scores: Floats, settings: DetectorSettings) -> Floats:
    """CUSUM level [L] after scores [W, L]; held at twice the threshold."""
    return chi_square.cusum(scores, kappa=settings.cusum_kappa, ceiling=2.0 * settings.cusum_h)


def detect(observed: Observed) -> Finding:
    """Change of the load of one engine; `value` is the debiased PSI of the worst layer."""
    settings, reference = observed.settings, observed.reference
    if reference is None or reference.windows < settings.min_reference_windows:
        seen = 0 if reference is None else reference.windows
        return _plain(
            observed, FindingState.WARMING_UP,
            f"No load reference yet ({seen} of {settings.min_reference_windows} windows).",
        )  # fmt: skip
    usable = _usable(observed, reference)
    if len(usable) < settings.windows_needed:
        warming = len(observed.windows) < settings.windows_needed
        state = FindingState.WARMING_UP if warming else FindingState.INCONCLUSIVE
        return _plain(observed, state, "Too few tokens in the last windows.")
    return _judge(observed, reference, usable)


def _usable(observed: Observed, reference: LoadReference) -> list[EngineWindow]:
    settings = observed.settings
    return [
        window for window in observed.windows[-settings.history_windows :]
        if window.assigned is not None
        and window.arrays["assignments"].shape[1:] == reference.shares.shape
        and window.assigned.min() >= settings.min_window_tokens * reference.top_k
    ]  # fmt: skip


def _judge(observed: Observed, reference: LoadReference, usable: Sequence[EngineWindow]) -> Finding:
    settings = observed.settings
    effect = observed.design_effect
    scores = change_scores(usable, reference, effect)
    level = change_level(scores, settings)
    recent = np.add.reduce([counts_of(window) for window in usable[-settings.windows_needed :]])
    psi, deviation = chi_square.stability_index(
        recent, reference.shares, reference_total=reference.totals, effect=effect
    )
    firing = (level > settings.cusum_h) & (psi > settings.psi_threshold)
    layer = int(np.lexsort((psi, firing))[-1])
    margin = float(ndtri(1.0 - settings.alpha)) * float(deviation[layer])
    state = FindingState.FIRING if bool(firing.any()) else FindingState.CLEAR
    return Finding(
        detector=DetectorName.LOAD_CHANGE, state=state, engine_id=observed.newest.engine_id,
        layer=layer, value=float(psi[layer]), low=float(psi[layer]) - margin,
        high=float(psi[layer]) + margin, threshold=settings.psi_threshold, unit="psi",
        n=int(recent[layer].sum()), start=observed.recent[0].start, end=observed.newest.end,
        message=(
            f"Expert shares differ from the reference by PSI {psi[layer]:.3f} in MoE layer "
            f"{layer}; change level {level[layer]:.1f} of {settings.cusum_h:.1f}; "
            f"{int(firing.sum())} of {len(firing)} layers changed."
        ),
        evidence={
            "cusum": float(level[layer]), "score": float(scores[-1, layer]),
            "design_effect": float(effect[layer]), "layers_firing": int(firing.sum()),
            "psi_by_layer": [round(float(x), 4) for x in psi],
        },
    )  # fmt: skip


def _plain(observed: Observed, state: FindingState, message: str) -> Finding:
    return Finding(
        detector=DetectorName.LOAD_CHANGE, state=state, engine_id=observed.newest.engine_id,
        threshold=observed.settings.psi_threshold, unit="psi", start=observed.recent[0].start,
        end=observed.newest.end, message=message,
    )  # fmt: skip
