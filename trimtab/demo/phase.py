"""One phase of the demo in figures: skew, overflow, answer quality, latencies."""

from collections.abc import Sequence
from dataclasses import dataclass

from controlplane.detectors.card_level import card_level
from controlplane.detectors.settings import DetectorSettings
from controlplane.detectors.tau import cross_bucket_tau, deviation_gram, root, tau_from_gram
from controlplane.history.window import EngineWindow
from trimtab.replay.client import RequestResult
from trimtab.replay.summary import summarise


@dataclass(frozen=True, slots=True)
class PhaseFigures:
    """What one phase showed.

    Attributes:
        tau, tau_se: persistent expert skew over all MoE layers, and its standard error.
        card_cv: debiased CV of load over ranks, worst layer.
        overflow_rate: assignments beyond capacity, before reroute, of all assignments.
        gate_mass_kept: gate weight that was not dropped.
        probe_nll: negative log-likelihood of the probe text, nats per token.
        ttft_p99_s, tpot_p99_s: as the load generator saw them.
        requests, errors: that were due in the phase.
    """

    tau: float | None
    tau_se: float | None
    card_cv: float | None
    overflow_rate: float | None
    gate_mass_kept: float | None
    probe_nll: float | None
    ttft_p99_s: float | None
    tpot_p99_s: float | None
    requests: int
    errors: int


def measure_phase(
    window: EngineWindow | None, results: Sequence[RequestResult], probe_nll: float | None
) -> PhaseFigures:
    """Figures of a phase from the stored history and from what the load generator saw."""
    summary = summarise(results)
    tau, tau_se = _tau(window)
    return PhaseFigures(
        tau=tau,
        tau_se=tau_se,
        card_cv=_card_cv(window),
        overflow_rate=_overflow(window),
        gate_mass_kept=_gate_mass(window),
        probe_nll=probe_nll,
        ttft_p99_s=summary.ttft.p99,
        tpot_p99_s=summary.tpot.p99,
        requests=summary.requests,
        errors=summary.errors,
    )


def _tau(window: EngineWindow | None) -> tuple[float | None, float | None]:
    """τ over all MoE layers (root mean square) and its jackknife error.

    The layers see the same sequences, so their Gram matrices are averaged before the jackknife.
    """
    counts = None if window is None else window.arrays.get("bucket_assignments")
    if window is None or counts is None or cross_bucket_tau(counts, top_k=1) is None:
        return None, None
    gram = deviation_gram(counts).mean(axis=0, keepdims=True)
    estimate = tau_from_gram(gram)
    tau, error = root(float(estimate.value[0])), float(estimate.standard_error[0])
    # The delta method: d√x = dx / (2√x); near zero the square's own error is the honest one.
    return tau, error / (2 * tau) if tau > error**0.5 else error**0.5


def _card_cv(window: EngineWindow | None) -> float | None:
    level = None if window is None else card_level(window, DetectorSettings())
    return None if level is None else root(float(level.debiased.max()))


def _overflow(window: EngineWindow | None) -> float | None:
    if window is None or not window.arrays["assignments"].sum():
        return None
    return float(window.arrays["overflow"].sum() / window.arrays["assignments"].sum())


def _gate_mass(window: EngineWindow | None) -> float | None:
    if window is None or not window.gate_mass_total:
        return None
    return window.gate_mass_kept / window.gate_mass_total
