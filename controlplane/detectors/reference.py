"""The load reference: shares of each expert while the bias was good. Frozen until marked anew.

It is captured when a bias is marked good and never during degradation: a reference that follows
the traffic forgets what good was.
"""

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from controlplane.detectors import chi_square
from controlplane.detectors.topology import of_topology
from controlplane.history.window import EngineWindow

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class LoadReference:
    """Expert shares of one engine under its last known good bias.

    Attributes:
        engine_id: whose.
        bias_hash: the bias that was live, None where the model has none.
        shares: float64 [L, E], each row sums to 1, every entry positive.
        totals: float64 [L], assignments behind each row.
        design_effect: float64 [L], φ ≥ 1 (see `chi_square.design_effect`).
        score_centre, score_spread: float64 [L], of the in-control normal scores (≥ 0, ≥ 1).
        windows: windows that were summed.
        start, end: unix seconds.
        top_k: experts a token.
    """

    engine_id: str
    bias_hash: str | None
    shares: Floats
    totals: Floats
    design_effect: Floats
    score_centre: Floats
    score_spread: Floats
    windows: int
    start: float
    end: float
    top_k: int

    @property
    def identity(self) -> tuple[str, str | None, float, float, int]:
        """What tells it from every other reference."""
        return self.engine_id, self.bias_hash, self.start, self.end, self.windows

    def to_bytes(self) -> bytes:
        """A compressed archive for storage; `from_bytes` gives the same reference back."""
        facts = {
            "engine_id": self.engine_id, "bias_hash": self.bias_hash, "windows": self.windows,
            "start": self.start, "end": self.end, "top_k": self.top_k,
        }  # fmt: skip
        buffer = io.BytesIO()
        np.savez_compressed(
            buffer,
            facts=np.frombuffer(json.dumps(facts).encode(), dtype=np.uint8),
            shares=self.shares,
            layers=np.stack(
                [self.totals, self.design_effect, self.score_centre, self.score_spread]
            ),
        )
        return buffer.getvalue()

    @classmethod
    def from_bytes(cls, body: bytes) -> "LoadReference":
        """Read what `to_bytes` wrote."""
        with np.load(io.BytesIO(body), allow_pickle=False) as archive:
            facts = json.loads(archive["facts"].tobytes())
            totals, effect, centre, spread = archive["layers"]
            return cls(
                shares=archive["shares"], totals=totals, design_effect=effect,
                score_centre=centre, score_spread=spread, **facts,
            )  # fmt: skip


def build_reference(windows: Sequence[EngineWindow]) -> LoadReference | None:
    """Sum the in-control windows into a reference; None when they hold no assignments.

    Windows of another topology than the newest one's are left out.
    Scores are standardised by median and median absolute deviation from eight windows on; below
    that the textbook null (0, 1) stands.
    """
    newest = of_topology(windows, windows[-1].header) if windows else []
    used = [window for window in newest if _has_every_layer(window)]
    if not used:
        return None
    header = used[-1].header
    counts = np.stack([window.arrays["assignments"].sum(axis=0) for window in used])
    counts = counts.astype(np.float64)
    smooth = counts.sum(axis=0) + 0.5
    shares = smooth / smooth.sum(axis=1, keepdims=True)
    totals = counts.sum(axis=(0, 2))
    effect = _design_effect(used, header.top_k)
    centre, spread = _score_scale(counts, shares, totals, effect, header.top_k)
    return LoadReference(
        engine_id=used[-1].engine_id, bias_hash=header.live_bias, shares=shares, totals=totals,
        design_effect=effect, score_centre=centre, score_spread=spread, windows=len(used),
        start=used[0].start, end=used[-1].end, top_k=header.top_k,
    )  # fmt: skip


def bucket_design_effect(windows: Sequence[EngineWindow], top_k: int) -> Floats | None:
    """φ from the newest window whose `bucket_assignments` fill at least two buckets, or None."""
    for window in reversed(windows):
        buckets = window.arrays.get("bucket_assignments")
        if buckets is None:
            continue
        filled = buckets.sum(axis=2).min(axis=1) > 0
        if int(filled.sum()) >= 2:
            return chi_square.design_effect(buckets[filled].astype(np.float64), top_k)
    return None


def _has_every_layer(window: EngineWindow) -> bool:
    counts = window.arrays.get("assignments")
    return counts is not None and counts.size > 0 and bool(counts.sum(axis=(0, 2)).min() > 0)


def _design_effect(windows: Sequence[EngineWindow], top_k: int) -> Floats:
    found = [
        effect for window in windows
        if (effect := bucket_design_effect([window], top_k)) is not None
    ]  # fmt: skip
    if found:
        return np.median(np.stack(found), axis=0)
    return np.ones(windows[-1].header.layers)


def _score_scale(
    counts: Floats, shares: Floats, totals: Floats, effect: Floats, top_k: int
) -> tuple[Floats, Floats]:
    layers, experts = shares.shape
    if len(counts) < 8:
        return np.zeros(layers), np.ones(layers)
    scaled = chi_square.pearson(counts, shares, top_k=top_k, reference_total=totals) / effect
    scores = chi_square.normal_score(scaled, experts - 1)
    centre = np.median(scores, axis=0)
    deviation = 1.4826 * np.median(np.abs(scores - centre), axis=0)
    return np.maximum(0.0, centre), np.maximum(1.0, deviation)
