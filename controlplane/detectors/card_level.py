"""Level per card: debiased coefficient of variation of the load over ranks. It informs only.

v0 = (M−1)(E−k)/(T·k·(E−1)) is the noise of uniform routing over M ranks; CV² − v0 estimates the
true one. On few ranks the mean over many experts hides an incident, and healthy experts reach 1.28
in public models, so no act follows from this finding. The interval counts token noise only.
Formula: reference, mechanisms § 3.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from controlplane.detectors.finding import DetectorName, Finding, FindingState
from controlplane.detectors.observed import Observed
from controlplane.detectors.persistence import persistent_state
from controlplane.detectors.settings import DetectorSettings
from controlplane.detectors.tau import Floats, root
from controlplane.history.window import EngineWindow


@dataclass(frozen=True, slots=True)
class CardLevel:
    """CV² over ranks by layer [L]: raw, debiased and its deviation; tokens behind it."""

    raw: Floats
    debiased: Floats
    deviation: Floats
    tokens: int


def card_level(window: EngineWindow, settings: DetectorSettings) -> CardLevel | None:
    """The level of one window; None without ranks to compare or with too few tokens."""
    array = window.arrays.get("card_assignments")
    header = window.header
    if array is None or array.shape[1] < 2 or array.shape[0] == 0:
        return None
    counts = array.astype(np.float64)
    tokens = counts.sum(axis=1) / header.top_k
    if tokens.min() < settings.min_window_tokens:
        return None
    ranks = counts.shape[1]
    mean = counts.mean(axis=1)
    raw = counts.var(axis=1) / mean**2
    spread = max(1, header.experts - header.top_k) / max(1, header.experts - 1)
    noise = (ranks - 1) * spread / (tokens * header.top_k)
    debiased = raw - noise
    shift = np.maximum(0.0, debiased) * (ranks - 1) / noise
    deviation = noise / (ranks - 1) * np.sqrt(2.0 * (ranks - 1) + 4.0 * shift)
    return CardLevel(raw=raw, debiased=debiased, deviation=deviation, tokens=int(tokens.min()))


def detect(observed: Observed) -> Finding:
    """Skew over the ranks of one engine; `layer` is the worst one."""
    settings, newest = observed.settings, observed.newest
    quantile = float(ndtri(1.0 - settings.alpha))
    levels = [
        window.remembered(
            "card level", lambda w: card_level(w, settings), settings.min_window_tokens
        )
        for window in observed.recent
    ]
    known = [level for level in levels if level is not None]
    if not known:
        ranks = newest.header.ranks
        why = "One rank only: there is nothing to compare." if ranks < 2 else "Too few tokens."
        warming = ranks >= 2 and len(observed.windows) < settings.windows_needed
        return Finding(
            detector=DetectorName.CARD_LEVEL,
            state=FindingState.WARMING_UP if warming else FindingState.INCONCLUSIVE,
            engine_id=newest.engine_id, threshold=settings.card_cv_threshold, unit="cv",
            start=observed.recent[0].start, end=newest.end, message=why,
        )  # fmt: skip
    last = known[-1]
    limit = settings.card_cv_threshold**2
    above = np.stack([level.debiased - quantile * level.deviation > limit for level in known])
    layer = int(np.lexsort((last.debiased, above.sum(axis=0)))[-1])
    holds = [
        None if level is None
        else bool(level.debiased[layer] - quantile * level.deviation[layer] > limit)
        for level in levels
    ]  # fmt: skip
    value = root(last.debiased[layer])
    margin = quantile * last.deviation[layer]
    return Finding(
        detector=DetectorName.CARD_LEVEL,
        state=persistent_state(holds, len(observed.windows), settings),
        engine_id=newest.engine_id, layer=layer, value=value,
        low=root(last.debiased[layer] - margin), high=root(last.debiased[layer] + margin),
        threshold=settings.card_cv_threshold, unit="cv", n=last.tokens,
        start=observed.recent[0].start, end=newest.end,
        message=(
            f"Load over {newest.header.ranks} ranks varies by {value:.2f} of its mean in MoE layer "
            f"{layer} (noise removed); the article's limit is {settings.card_cv_threshold:.2f}."
        ),
        evidence={
            "raw_cv": root(last.raw[layer]),
            "debiased_cv_by_layer": [round(root(x), 4) for x in last.debiased],
        },
    )  # fmt: skip
