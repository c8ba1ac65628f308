"""A scenario as the snapshots that a control plane would have stored while it ran."""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from contract.admin import Cause as ConfigCause
from contract.admin import CauseKind, ConfigDocument, ConfigState
from controlplane.detectors.evaluate import evaluate as detect
from controlplane.detectors.reference import LoadReference, build_reference
from controlplane.history.window import EngineWindow
from controlplane.policy.backtest import Incident
from controlplane.policy.facts import bias_facts, is_fresh, load_facts
from controlplane.policy.knob import Knob
from controlplane.policy.policy import Policy
from controlplane.policy.snapshot import Snapshot
from controlplane.slo.evaluate import evaluate as judge
from engine.simulation.run import EPOCH, ScenarioRun
from engine.simulation.scenario import Scenario
from trimtab.simulated.window import windows_of

SLO_SECONDS = 600.0
REFERENCE_WINDOWS = 60


def suited(policy: Policy, tick_seconds: float) -> Policy:
    """The policy on windows (and overflow slices) of a scenario's tick."""
    detectors = policy.detectors.model_copy(update={"window_seconds": tick_seconds})
    overflow = policy.slo.overflow
    slices = overflow.model_copy(
        update={"slice_seconds": max(tick_seconds, overflow.slice_seconds)}
    )
    stale = max(policy.slo.stale_seconds, 3.0 * tick_seconds)
    slo = policy.slo.model_copy(update={"overflow": slices, "stale_seconds": stale})
    return policy.model_copy(update={"detectors": detectors, "slo": slo})


def incidents_of(scenario: Scenario) -> tuple[Incident, ...]:
    """The labelled truth, as a backtest takes it: what mends or eases is no false act."""
    truth = scenario.truth
    if truth.onset is None or truth.end is None:
        return ()
    knobs = tuple(Knob(name) for name in (*truth.knobs, *truth.eases))
    return (
        Incident(name=scenario.name, onset=EPOCH + truth.onset, end=EPOCH + truth.end, knobs=knobs),
    )


@dataclass
class SimulatedHistory:
    """Snapshots of one simulated engine that nobody governs.

    Attributes:
        run: the engine under its scenario, fresh.
        policy: how it is looked at (already `suited`).
        reference: taken when the healthy beginning is over.
    """

    run: ScenarioRun
    policy: Policy
    reference: LoadReference | None = None
    _windows: deque[EngineWindow] = field(default_factory=deque)

    @classmethod
    def of(cls, scenario: Scenario, policy: Policy, *, seed: int = 0) -> "SimulatedHistory":
        """A scenario from its beginning, under a policy on its ticks."""
        return cls(ScenarioRun.of(scenario, seed=seed), suited(policy, scenario.tick_seconds))

    def snapshots(self) -> Iterator[Snapshot]:
        """One a tick; the load reference is taken at the end of the healthy beginning."""
        for at, arrived in windows_of(self.run):
            self.take(at, arrived)
            if self._windows:
                yield self.evaluate(EPOCH + at)

    def take(self, at: float, arrived: Sequence[EngineWindow]) -> None:
        """Windows that arrived by `at` seconds on the scenario's clock."""
        rules = self.policy.detectors
        most = max(
            rules.history_windows, round(SLO_SECONDS / rules.window_seconds), REFERENCE_WINDOWS
        )
        self._windows.extend(arrived)
        while len(self._windows) > most:
            self._windows.popleft()
        if self.reference is None and at >= self.run.scenario.warm_seconds and self._windows:
            self.reference = build_reference(tuple(self._windows)[-REFERENCE_WINDOWS:])

    def evaluate(self, at: float) -> Snapshot:
        """What detectors and SLOs say of the windows so far."""
        windows = tuple(self._windows)
        rules = self.policy.detectors
        newest = windows[-1]
        findings, attribution = detect(windows[-rules.history_windows :], self.reference, rules)
        age = at - newest.end
        judged = windows[-max(1, round(SLO_SECONDS / rules.window_seconds)) :]
        return Snapshot(
            at=at, engine_id=newest.engine_id, group=newest.header.group, data_age_seconds=age,
            fresh=is_fresh(age, self.policy.slo.stale_seconds), reachable=True,
            config=config_state(newest, at), observed_generation=newest.header.config_generation,
            findings=findings, attribution=attribution,
            slos=judge(judged, at, self.policy.slo), bias=bias_facts(judged),
            load=load_facts(judged, self.policy),
            baseline={knob: getattr(newest.header.config, knob.value) for knob in Knob},
            live_knobs=tuple(Knob),
        )  # fmt: skip


def config_state(window: EngineWindow, at: float) -> ConfigState:
    """The config of a window's newest frame, as the engine's admin API would say it."""
    config, generation = window.header.config, window.header.config_generation
    document = ConfigDocument(
        generation=generation, config_hash=config.content_hash(), config=config, parent=None,
        cause=ConfigCause(kind=CauseKind.BOOT, reason="simulated"), committed_unix_seconds=at,
        effective_at_step=0,
    )  # fmt: skip
    return ConfigState(
        document=document, etag=f'"{generation}"', epoch_seen=0, frozen=window.header.frozen
    )
