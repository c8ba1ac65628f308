"""Why the load moved: the bias, the traffic, the placement, a slow rank, or unknown.

It is the bias if its hash changed and the what-if under the LKG removes at least 70 % of the excess
χ² against the reference, on the same sampled tokens. Layers that both biases route alike say
nothing about the bias and are left out. Without a reference, excess skew (τ²) takes the place of
excess χ², and the evidence says so.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from controlplane.detectors import chi_square
from controlplane.detectors.bias_drift import is_last_known_good
from controlplane.detectors.finding import (
    Attribution,
    Cause,
    DetectorName,
    Finding,
    FindingState,
)
from controlplane.detectors.observed import Floats, Observed, pooled

ROUTED_ALIKE = 0.01
"""Total variation between both sides' shares below which a layer is left out."""

Findings = Mapping[DetectorName, Finding]


@dataclass(frozen=True, slots=True)
class Removal:
    """What the LKG would remove of the excess; `basis` says of which excess."""

    ratio: float | None
    basis: str
    layers: int
    excess_live: float = 0.0
    excess_lkg: float = 0.0


def bias_changed(observed: Observed) -> bool:
    """Whether another bias than the LKG was live in the newest window."""
    newest = observed.newest
    return newest.header.lkg_bias is not None and not is_last_known_good(newest)


def excess_removed(observed: Observed, drift: Finding) -> Removal:
    """Share of the excess that routing the same tokens by the LKG takes away."""
    reference = observed.reference
    lkg_hash = observed.newest.header.lkg_bias
    windows = [w for w in observed.recent if w.header.lkg_bias == lkg_hash]
    sides = pooled(windows, "whatif_live"), pooled(windows, "whatif_lkg")
    if sides[0] is None or sides[1] is None or sides[0].sum() == 0:
        return Removal(ratio=None, basis="no what-if sample", layers=0)
    live, lkg = sides[0].astype(np.float64), sides[1].astype(np.float64)
    if reference is None or reference.shares.shape != live.shape:
        return _by_tau(drift)
    totals = live.sum(axis=1), lkg.sum(axis=1)
    rows = (totals[0] > 0) & (totals[1] > 0)
    apart = np.zeros(len(live))
    shares = live[rows] / totals[0][rows, None] - lkg[rows] / totals[1][rows, None]
    apart[rows] = np.abs(shares).sum(axis=1) / 2.0
    chosen = apart > ROUTED_ALIKE
    if not chosen.any():
        return Removal(ratio=0.0, basis="both biases route alike", layers=0)
    freedom = live.shape[1] - 1
    effect = _sample_effect(observed)
    excess = [
        chi_square.pearson(
            side[chosen], reference.shares[chosen], top_k=reference.top_k,
            reference_total=reference.totals[chosen],
        ) - effect[chosen] * freedom
        for side in (live, lkg)
    ]  # fmt: skip
    before = float(np.maximum(0.0, excess[0]).sum())
    after = float(np.maximum(0.0, excess[1]).sum())
    ratio = None if before <= 0 else 1.0 - after / before
    return Removal(
        ratio=ratio, basis="excess χ² against the reference", layers=int(chosen.sum()),
        excess_live=before, excess_lkg=after,
    )  # fmt: skip


def attribute(observed: Observed, findings: Findings) -> Attribution:
    """One cause for what the detectors found, with what was held against what."""
    drift = findings[DetectorName.BIAS_DRIFT]
    changed = bias_changed(observed)
    if changed:
        removal = excess_removed(observed, drift)
        evidence = {
            "basis": removal.basis, "layers": removal.layers,
            "excess_live": removal.excess_live, "excess_last_known_good": removal.excess_lkg,
            "needed_ratio": observed.settings.attribution_ratio,
        }  # fmt: skip
        if removal.ratio is not None and removal.ratio >= observed.settings.attribution_ratio:
            return Attribution(
                cause=Cause.BIAS, bias_changed=True, excess_removed_ratio=removal.ratio,
                message=(
                    f"The bias changed, and routing the same tokens by the last known good removes "
                    f"{removal.ratio:.0%} of the {removal.basis}."
                ),
                evidence=evidence,
            )  # fmt: skip
        cause, message = _other_cause(findings)
        return Attribution(
            cause=cause, bias_changed=True, excess_removed_ratio=removal.ratio,
            message=f"The bias changed but does not explain the load. {message}",
            evidence=evidence,
        )  # fmt: skip
    cause, message = _other_cause(findings)
    return Attribution(cause=cause, bias_changed=False, message=message)


def _other_cause(findings: Findings) -> tuple[Cause, str]:
    straggler = findings[DetectorName.STRAGGLER]
    if straggler.state is FindingState.FIRING and not straggler.evidence["loaded"]:
        rank = straggler.evidence["rank"]
        return Cause.SLOW_RANK, f"Rank {rank} holds the others up without more load."
    if findings[DetectorName.LOAD_CHANGE].state is FindingState.FIRING:
        return Cause.TRAFFIC, "Expert shares left the reference with the same routing: the traffic."
    if findings[DetectorName.CARD_LEVEL].state is FindingState.FIRING:
        return (
            Cause.PLACEMENT,
            "Ranks are uneven while expert shares are as in the reference: the placement.",
        )
    return Cause.UNKNOWN, "No detector names a cause."


def _sample_effect(observed: Observed) -> Floats:
    buckets = pooled(observed.recent, "bucket_whatif_lkg")
    header = observed.newest.header
    if buckets is not None:
        filled = buckets.sum(axis=2).min(axis=1) > 0
        if int(filled.sum()) >= 2:
            return chi_square.design_effect(buckets[filled].astype(np.float64), header.top_k)
    return np.ones(header.layers)


def _by_tau(drift: Finding) -> Removal:
    live, lkg = drift.evidence.get("tau_live"), drift.evidence.get("tau_lkg")
    if not live or lkg is None:
        return Removal(ratio=None, basis="no reference and no estimate of skew", layers=0)
    return Removal(
        ratio=1.0 - (lkg / live) ** 2, basis="skew τ² (there is no reference)", layers=1,
        excess_live=live**2, excess_lkg=lkg**2,
    )  # fmt: skip
