"""The governor's own series: what an evaluation saw, what was decided, what became of actions."""

from controlplane.actuator.action import IN_FLIGHT, Action
from controlplane.audit.models import AuditHead
from controlplane.db.database import Database
from controlplane.detectors.finding import DetectorName, Finding, FindingState
from controlplane.metrics import Instruments
from controlplane.policy.decision import Decision
from controlplane.policy.snapshot import Snapshot
from controlplane.slo.status import SloState, SloStatus

_SAID = (SloState.MET, SloState.BREACHED)


class AuditCount:
    """`trimtab_audit_events_total` from the chain's head, so that every process's events count."""

    def __init__(self, instruments: Instruments) -> None:
        self._counter = instruments.counter("trimtab_audit_events_total")
        self._shown = 0

    def show(self, database: Database) -> None:
        """Catch up with the head."""
        with database.read() as session:
            head = session.get(AuditHead, 1)
        sequence = 0 if head is None else head.sequence
        self._counter.inc(max(0, sequence - self._shown))
        self._shown = max(self._shown, sequence)


class EvaluationGauges:
    """Writes the `trimtab_*` series of evaluations and actions."""

    def __init__(self, instruments: Instruments) -> None:
        self._instruments = instruments
        self._windows: dict[tuple[str, str], set[str]] = {}

    def show(self, snapshot: Snapshot) -> None:
        """Gauges of one engine, as the snapshot has them."""
        engine, gauge = snapshot.engine_id, self._instruments.gauge
        if not snapshot.observe_only:  # it has no admin API whose silence would be news
            reachable = 1.0 if snapshot.reachable else 0.0
            gauge("trimtab_engine_reachable").labels(engine).set(reachable)
        age = snapshot.data_age_seconds
        if age is not None and age >= 0:  # below, it tells of the engine's clock
            gauge("trimtab_frame_age_seconds").labels(engine).set(age)
        for finding in snapshot.findings:
            firing = 1.0 if finding.state is FindingState.FIRING else 0.0
            gauge("trimtab_findings_firing").labels(engine, finding.detector.value).set(firing)
            if finding.detector is DetectorName.BIAS_DRIFT:
                self._show_skew(engine, finding)
        for slo in snapshot.slos:
            self._show_slo(engine, slo)

    def _show_slo(self, engine: str, slo: SloStatus) -> None:
        """Where nothing can be said there is no series: a 0 would read as "all is well"."""
        labels = (engine, slo.slo.value)
        is_stale = slo.state is SloState.STALE
        known = [t for t in slo.tiers if t.state in _SAID and t.total and not is_stale]
        fastest = next((tier for tier in slo.tiers[:1] if tier in known), None)
        bad = None if fastest is None else fastest.bad / fastest.total
        self._put("trimtab_slo_bad_ratio", labels, bad)
        left = None if slo.budget is None else slo.budget.remaining_ratio
        self._put("trimtab_slo_budget_remaining_ratio", labels, left)
        # A tier with few events looks back further: its old window must not stay behind.
        burns = {f"{tier.long_seconds}s": tier.burn_long for tier in known}
        for window in self._windows.get(labels, set()) | burns.keys():
            self._put("trimtab_slo_burn_rate_ratio", (*labels, window), burns.get(window))
        self._windows[labels] = set(burns)

    def _put(self, name: str, labels: tuple[str, ...], value: float | None) -> None:
        gauge = self._instruments.gauge(name)
        if value is None:
            gauge.remove(*labels)
        else:
            gauge.labels(*labels).set(value)

    def count(self, engine_id: str, decision: Decision) -> None:
        """One more decision that says something new."""
        self._instruments.counter("trimtab_decisions_total").labels(
            engine_id, decision.policy, decision.reason.value
        ).inc()

    def on_phase(self, before: Action | None, after: Action) -> None:
        """An action has moved (`actuator.ports.PhaseListener`)."""
        in_flight = self._instruments.gauge("trimtab_action_in_flight").labels(after.engine_id)
        in_flight.set(1.0 if after.phase in IN_FLIGHT else 0.0)
        if after.is_final and (before is None or not before.is_final):
            knob = after.change.knob.value if after.change.knob else "config"
            self._instruments.counter("trimtab_actions_total").labels(
                after.engine_id, knob, after.phase.value
            ).inc()

    def _show_skew(self, engine: str, drift: Finding) -> None:
        gauge = self._instruments.gauge
        gauge("trimtab_bias_drift_tau_ratio").labels(engine).set(max(0.0, drift.low or 0.0))
        live = drift.evidence.get("tau_live")
        if isinstance(live, int | float):
            gauge("trimtab_expert_skew_tau_ratio").labels(engine).set(float(live))
