"""The bias rule: drift that is the bias's own goes back to the last known good.

Three things must agree: the drift detector fires (what-if, same tokens), the attribution says bias
(what-if removes the excess against the reference), and there is a last known good to go to. Balance
alone is never enough: traffic moves loads too.
"""

from controlplane.detectors.finding import Cause, DetectorName, Finding, FindingState
from controlplane.policy.candidate import Candidate
from controlplane.policy.decision import Reason
from controlplane.policy.knob import Knob
from controlplane.policy.snapshot import Snapshot
from controlplane.slo.status import SloName, SloState


def finding(snapshot: Snapshot, name: DetectorName) -> Finding | None:
    """The finding of one detector, if it is in the snapshot."""
    return next((found for found in snapshot.findings if found.detector is name), None)


def bias_candidates(snapshot: Snapshot) -> list[Candidate]:
    """At most one wish: roll the bias back, possibly blocked with the reason why not."""
    drift = finding(snapshot, DetectorName.BIAS_DRIFT)
    change = finding(snapshot, DetectorName.LOAD_CHANGE)
    if drift is None:
        return []
    if drift.state is FindingState.FIRING:
        return [_rollback(snapshot, drift)]
    if (
        change is not None
        and change.state is FindingState.FIRING
        and _attributed(snapshot)
        and snapshot.bias.live != snapshot.bias.last_known_good
    ):
        return [
            _candidate(
                snapshot, blocked=Reason.WHATIF_NO_GAIN,
                explanation=(
                    "The load changed with the bias, but routing the same tokens by the last known "
                    "good does not lower the skew enough yet."
                ),
            )
        ]  # fmt: skip
    return []


def _rollback(snapshot: Snapshot, drift: Finding) -> Candidate:
    bias, attribution = snapshot.bias, snapshot.attribution
    if bias.last_known_good is None:
        return _candidate(
            snapshot, blocked=Reason.NO_LAST_KNOWN_GOOD,
            explanation="The bias drifts, but no version is marked good to go back to.",
        )  # fmt: skip
    if bias.live == bias.last_known_good:
        return _candidate(
            snapshot, blocked=Reason.WHATIF_NO_GAIN,
            explanation="The last known good bias is live already.",
        )  # fmt: skip
    if attribution is None or attribution.cause is not Cause.BIAS:
        cause = "unknown" if attribution is None else attribution.cause
        told = "" if attribution is None else f" {attribution.message}"
        return _candidate(
            snapshot, blocked=Reason.NOT_THE_BIAS,
            explanation=f"The bias drifts, but the excess is attributed to {cause}.{told}",
        )  # fmt: skip
    low = drift.low if drift.low is not None else drift.value
    return _candidate(
        snapshot, blocked=None,
        explanation=(
            f"The live router bias adds skew τ of at least {low or 0.0:.2f} over the last known "
            f"good (limit {drift.threshold or 0.0:.2f}) in MoE layer {drift.layer}. "
            f"{attribution.message} Rolling back to {bias.last_known_good[:12]}."
        ),
        predicted=_predicted(drift),
    )  # fmt: skip


def _attributed(snapshot: Snapshot) -> bool:
    return snapshot.attribution is not None and snapshot.attribution.cause is Cause.BIAS


def _predicted(drift: Finding) -> str:
    live, lkg = drift.evidence.get("tau_live"), drift.evidence.get("tau_lkg")
    if live is None or lkg is None:
        return "what-if: the added skew goes away"
    return f"what-if on the same tokens: skew τ {live:.2f} becomes {lkg:.2f}"


def _candidate(
    snapshot: Snapshot,
    *,
    blocked: Reason | None,
    explanation: str,
    predicted: str = "no gain shown",
) -> Candidate:
    overflows = any(
        slo.slo is SloName.OVERFLOW and slo.state is SloState.BREACHED for slo in snapshot.slos
    )
    return Candidate(
        knob=Knob.ROUTER_BIAS, current=snapshot.bias.live, target=snapshot.bias.last_known_good,
        direction=-1, reason=Reason.BIAS_DRIFT, explanation=explanation, predicted=predicted,
        target_slo=SloName.OVERFLOW if overflows else None, blocked=blocked,
    )  # fmt: skip
