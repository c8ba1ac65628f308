"""Straggler rank: the one that waits least while the others wait for it.

In an all-to-all every rank waits for the slowest. The slow one finds its peers already there. A
rank that carries more load than its share is loaded, not slow: the evidence tells both apart.
"""

from dataclasses import dataclass

import numpy as np

from controlplane.detectors.finding import DetectorName, Finding, FindingState
from controlplane.detectors.observed import Observed, pooled
from controlplane.detectors.persistence import persistent_state
from controlplane.detectors.settings import DetectorSettings
from controlplane.history.window import EngineWindow


@dataclass(frozen=True, slots=True)
class WaitContrast:
    """One window: the rank that waits least, its wait and its peers' median, as time ratios."""

    rank: int
    own: float
    peers: float

    def stands_out(self, settings: DetectorSettings) -> bool:
        """Whether the peers wait long, and this rank much less."""
        return (
            self.peers >= settings.straggler_min_wait_ratio
            and self.own <= settings.straggler_wait_ratio * self.peers
        )


def wait_contrast(window: EngineWindow) -> WaitContrast | None:
    """The contrast of one window; None with one rank, or no time covered."""
    waits = window.arrays.get("a2a_rank_wait_us")
    if waits is None or waits.size < 2 or window.covered_seconds <= 0 or window.steps == 0:
        return None
    shares = waits.astype(np.float64) * 1e-6 / window.covered_seconds
    rank = int(np.argmin(shares))
    peers = float(np.median(np.delete(shares, rank)))
    return WaitContrast(rank=rank, own=float(shares[rank]), peers=peers)


def detect(observed: Observed) -> Finding:
    """The rank that held the others up in k of n windows."""
    settings, newest = observed.settings, observed.newest
    contrasts = [w.remembered("waits", wait_contrast) for w in observed.recent]
    known = [contrast for contrast in contrasts if contrast is not None]
    if not known:
        warming = len(observed.windows) < settings.windows_needed and newest.header.ranks > 1
        return Finding(
            detector=DetectorName.STRAGGLER,
            state=FindingState.WARMING_UP if warming else FindingState.INCONCLUSIVE,
            engine_id=newest.engine_id, threshold=settings.straggler_min_wait_ratio, unit="time",
            start=observed.recent[0].start, end=newest.end,
            message="One rank only, or no step ran: there is nothing to compare.",
        )  # fmt: skip
    suspects = [contrast.rank for contrast in known if contrast.stands_out(settings)]
    rank = max(sorted(set(suspects)), key=suspects.count) if suspects else known[-1].rank
    holds = [
        None if contrast is None else contrast.rank == rank and contrast.stands_out(settings)
        for contrast in contrasts
    ]
    peers = float(np.median([contrast.peers for contrast in known]))
    load = _load_ratio(observed, rank)
    return Finding(
        detector=DetectorName.STRAGGLER,
        state=persistent_state(holds, len(observed.windows), settings),
        engine_id=newest.engine_id, value=peers, threshold=settings.straggler_min_wait_ratio,
        unit="time", n=len(known), start=observed.recent[0].start, end=newest.end,
        message=(
            f"Rank {rank} waits least; its peers wait {peers:.1%} of the time. "
            f"It carries {load:.2f} times the mean load."
        ),
        evidence={
            "rank": rank, "load_ratio": load, "loaded": load > settings.straggler_load_ratio,
            "own_wait_ratio": float(np.median([contrast.own for contrast in known])),
        },
    )  # fmt: skip


def _load_ratio(observed: Observed, rank: int) -> float:
    cards = pooled(observed.recent, "card_assignments")
    if cards is None or cards.sum() == 0:
        return 1.0
    load = cards.sum(axis=0)
    return float(load[rank] / load.mean())
