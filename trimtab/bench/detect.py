"""Detectors on simulated scenarios with labelled truth: right cause, time to detect, false alarms.

A false alarm is an evaluation of a quiet scenario in which a detector fires that may lead to an act
or a page (`ACTING`), counted once until it has been silent for an hour. Simulated throughout.
"""

import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from controlplane.detectors.finding import DetectorName, Finding, FindingState
from controlplane.policy.builtin import DEFAULT
from controlplane.policy.snapshot import Snapshot
from engine.simulation import scenario as scenarios
from engine.simulation.events import BiasRamp
from engine.simulation.run import EPOCH, ScenarioRun
from engine.simulation.scenario import Scenario
from trimtab.bench.figure import Figure
from trimtab.simulated.history import SimulatedHistory, suited
from trimtab.simulated.real_incidents import recorded_names, recorded_run

ACTING = frozenset({DetectorName.BIAS_DRIFT, DetectorName.LOAD_CHANGE, DetectorName.STRAGGLER})
"""Detectors whose firing alone leads to an act, an attribution or a page."""
AGAIN_SECONDS = 3600.0
RAMP = "incident-24h"
TICK_SCENARIO_SECONDS = 900.0
AGAINST = "labelled simulated scenarios"


@dataclass
class Judged:
    """What was said of one scenario.

    Attributes:
        causes: attributions while something fired inside the labelled time.
        detected_after: seconds from onset to the first firing of a labelled detector.
        alarms: firings outside the labelled time.
    """

    scenario: Scenario
    causes: Counter[str]
    detected_after: float | None
    alarms: int

    @property
    def cause(self) -> str | None:
        """The cause named most often; None when nothing fired."""
        return self.causes.most_common(1)[0][0] if self.causes else None

    @property
    def right(self) -> bool:
        """Whether the labelled cause was found, or nothing was said where nothing is to be said."""
        truth = self.scenario.truth
        if "unknown" in truth.causes:
            return self.cause in {None, *truth.causes}
        if self.cause is None:
            return not truth.causes
        return self.cause in truth.causes and (
            not truth.detectors or self.detected_after is not None
        )


def run() -> list[Figure]:
    """All figures; minutes."""
    faulty = [scenarios.load(name) for name in scenarios.names() if not name.startswith("quiet-")]
    judged = [judge(ScenarioRun.of(scenario)) for scenario in faulty]
    judged += [judge(recorded_run(name)) for name in recorded_names()]
    right = [each for each in judged if each.right]
    calm = [scenarios.load(n) for n in scenarios.names() if n.startswith("quiet-")]
    quiet = [judge(ScenarioRun.of(scenario)) for scenario in calm]
    days = sum(each.scenario.seconds for each in quiet) / 86_400.0
    alarms = sum(each.alarms for each in quiet)
    ramp = next(each for each in judged if each.scenario.name == RAMP)
    wrong = ", ".join(each.scenario.name for each in judged if not each.right) or "none wrong"
    return [
        Figure("detect.tick_s", tick_seconds(), "s", 0.1, "<=", 1, against="58 × 256, one engine"),
        Figure("detect.false_alarms_30d", alarms * 30.0 / days, "alarms", 1.0, "<=", len(quiet),
               against=f"{days:.0f} quiet simulated days"),
        Figure("detect.scenarios_right_cause_ratio", len(right) / len(judged), "ratio", 0.9, ">=",
               len(judged), against=f"{AGAINST}; wrong: {wrong}"),
        Figure("detect.ramp_fraction_at_detection", ramp_fraction(ramp), "ratio", 0.30, "<=", 1,
               against=f"{RAMP}, simulated"),
    ]  # fmt: skip


def judge(run: ScenarioRun) -> Judged:
    """A scenario through the detectors of the default policy."""
    policy = suited(DEFAULT, run.scenario.tick_seconds)
    return judge_snapshots(run.scenario, SimulatedHistory(run, policy).snapshots())


def judge_snapshots(scenario: Scenario, snapshots: Iterable[Snapshot]) -> Judged:
    """Hold what the detectors said against the labels."""
    truth = scenario.truth
    causes: Counter[str] = Counter()
    detected: float | None = None
    alarms, last_alarm = 0, float("-inf")
    for snapshot in snapshots:
        at = snapshot.at - EPOCH
        firing = {f.detector.value for f in snapshot.findings if _fires(f)}
        if truth.onset is not None and truth.end is not None and at > truth.onset:
            if at > truth.end:
                continue
            if detected is None and firing & set(truth.detectors):
                detected = at - truth.onset
            if firing & {name.value for name in ACTING} and snapshot.attribution is not None:
                causes[snapshot.attribution.cause.value] += 1
        elif at > scenario.warm_seconds and firing & {name.value for name in ACTING}:
            if at - last_alarm > AGAIN_SECONDS:
                alarms += 1
            last_alarm = at
    return Judged(scenario, causes, detected, alarms)


def _fires(finding: Finding) -> bool:
    return finding.state is FindingState.FIRING


def ramp_fraction(judged: Judged) -> float:
    """Part of the bias ramp that was done when it was detected; 1 when it never was."""
    ramp = next(e for e in judged.scenario.events if isinstance(e, BiasRamp))
    return 1.0 if judged.detected_after is None else min(1.0, judged.detected_after / ramp.seconds)


def tick_seconds() -> float:
    """Seconds of one evaluation of a DeepSeek-V3 engine, all layers, a full history of windows."""
    base = scenarios.load("bias-ramp-fast")
    engine = base.engine.model_copy(update={"layers": None})
    scenario = base.model_copy(
        update={"engine": engine, "seconds": TICK_SCENARIO_SECONDS, "warm_seconds": 300.0}
    )
    history = SimulatedHistory.of(scenario, DEFAULT)
    for _ in history.snapshots():
        pass
    spent = []
    for _ in range(5):
        begun = time.perf_counter()
        history.evaluate(EPOCH + scenario.seconds)
        spent.append(time.perf_counter() - begun)
    return min(spent)
