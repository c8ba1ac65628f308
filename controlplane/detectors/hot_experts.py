"""Localise: which experts are hot or dead against the reference, with their share of traffic.

Per-expert z (variance inflated by the reference's own noise and by the design effect),
Benjamini-Hochberg over all layers and experts at q, then an effect gate: a share at least
`hot_share_ratio` times, or at most `dead_share_ratio` of, the reference. It points, no more.
"""

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri

from controlplane.detectors.finding import DetectorName, Finding, FindingState
from controlplane.detectors.observed import Observed, expert_counts
from controlplane.detectors.reference import LoadReference

Floats = npt.NDArray[np.float64]
LISTED = 10
UNIT = "× reference share"


def benjamini_hochberg(p_values: Floats, q: float) -> npt.NDArray[np.bool_]:
    """Which hypotheses are rejected at false discovery rate `q`; any shape, same shape out."""
    small = np.sort(p_values[p_values <= q], axis=None)  # larger ones are never rejected
    limits = q * np.arange(1, small.size + 1) / p_values.size
    passing = np.nonzero(small <= limits)[0]
    cut = small[passing[-1]] if passing.size else -1.0
    rejected: npt.NDArray[np.bool_] = p_values <= cut
    return rejected


def expert_scores(counts: Floats, reference: LoadReference, effect: Floats) -> Floats:
    """Normal score of each expert [L, E] from counts [L, E]."""
    total = counts.sum(axis=1, keepdims=True)
    tokens = total / reference.top_k
    chance = np.minimum(0.999, reference.shares * reference.top_k)
    inflation = effect[:, None] * (1.0 + total / reference.totals[:, None])
    variance = tokens * chance * (1.0 - chance) * inflation
    scores: Floats = (counts - total * reference.shares) / np.sqrt(variance)
    return scores


def detect(observed: Observed) -> Finding:
    """Hot and dead experts over the newest windows together."""
    settings, reference = observed.settings, observed.reference
    if reference is None or reference.windows < settings.min_reference_windows:
        return _plain(observed, FindingState.WARMING_UP, "No load reference yet.")
    found = [expert_counts(window) for window in observed.recent]
    counts = [c for c in found if c is not None and c.shape == reference.shares.shape]
    total = np.sum(counts, axis=0) if counts else np.zeros_like(reference.shares)
    tokens = int(total.sum(axis=1).min() / reference.top_k)
    if tokens < settings.min_window_tokens:
        warming = len(observed.windows) < settings.windows_needed
        state = FindingState.WARMING_UP if warming else FindingState.INCONCLUSIVE
        return _plain(observed, state, f"Only {tokens} tokens.")
    return _judge(observed, reference, total, tokens)


def _judge(observed: Observed, reference: LoadReference, counts: Floats, tokens: int) -> Finding:
    settings = observed.settings
    effect = observed.design_effect
    scores = expert_scores(counts, reference, effect)
    p_values = np.ones_like(scores)
    far = np.abs(scores) > ndtri(1.0 - settings.fdr_q / 2.0)  # only these can be rejected
    p_values[far] = 2.0 * ndtr(-np.abs(scores[far]))
    rejected = benjamini_hochberg(p_values, settings.fdr_q)
    share = counts / counts.sum(axis=1, keepdims=True)
    ratio = share / reference.shares
    hot = rejected & (ratio >= settings.hot_share_ratio)
    dead = rejected & (ratio <= settings.dead_share_ratio)
    state = FindingState.FIRING if hot.any() or dead.any() else FindingState.CLEAR
    worst = np.unravel_index(int(np.argmax(np.where(hot, share, -1.0))), share.shape)
    layer = int(worst[0]) if hot.any() else None
    hot_share = float((share * hot).sum(axis=1).max())
    return Finding(
        detector=DetectorName.HOT_EXPERTS, state=state, engine_id=observed.newest.engine_id,
        layer=layer, value=float(np.where(rejected, ratio, 0.0).max()), unit=UNIT, n=tokens,
        threshold=settings.hot_share_ratio,
        start=observed.recent[0].start, end=observed.newest.end,
        message=(
            f"{int(hot.sum())} hot and {int(dead.sum())} dead experts against the reference; "
            f"hot ones take up to {hot_share:.0%} of a layer's assignments. Hot is at least "
            f"{settings.hot_share_ratio:g} times the reference share, dead at most "
            f"{settings.dead_share_ratio:g} times, both beyond chance."
        ),
        evidence={
            "hot": _list(hot, share, ratio, scores), "dead": _list(dead, share, ratio, scores),
            "hot_share": hot_share, "hot_count": int(hot.sum()), "dead_count": int(dead.sum()),
            "q": settings.fdr_q,
        },
    )  # fmt: skip


def _list(
    chosen: npt.NDArray[np.bool_], share: Floats, ratio: Floats, scores: Floats
) -> list[dict[str, float]]:
    layers, experts = np.nonzero(chosen)
    order = np.argsort(-np.abs(scores[layers, experts]), kind="stable")[:LISTED]
    return [
        {
            "layer": int(layers[i]), "expert": int(experts[i]),
            "share": float(share[layers[i], experts[i]]),
            "share_ratio": float(ratio[layers[i], experts[i]]),
            "z": float(scores[layers[i], experts[i]]),
        }
        for i in order
    ]  # fmt: skip


def _plain(observed: Observed, state: FindingState, message: str) -> Finding:
    return Finding(
        detector=DetectorName.HOT_EXPERTS, state=state, engine_id=observed.newest.engine_id,
        threshold=observed.settings.hot_share_ratio, unit=UNIT,
        start=observed.recent[0].start, end=observed.newest.end, message=message,
    )  # fmt: skip
