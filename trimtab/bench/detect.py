"""Detectors and policy on simulated scenarios with labelled truth; how they are judged: `judging`.

Simulated throughout. Scenarios run in as many processes as there are cores, each from its seed.
"""

import statistics
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor

from controlplane.policy.builtin import DEFAULT
from engine.simulation import scenario as scenarios
from engine.simulation.events import BiasRamp
from engine.simulation.run import EPOCH, ScenarioRun
from engine.simulation.scenario import Scenario
from trimtab.bench.figure import Figure, cores
from trimtab.bench.judging import Judged, judge_snapshots
from trimtab.simulated.history import SimulatedHistory, suited
from trimtab.simulated.real_incidents import recorded_names, recorded_run
from trimtab.simulated.window import windows_of

RAMP = "incident-24h"
WEEK = 7.0 * 86_400.0
DAY_OF_PRODUCTION_WINDOWS = {"seconds": 86_400.0, "warm_seconds": 3600.0, "tick_seconds": 10.0}
"""Beside the quiet weeks, whose windows are of a minute: one day of windows of 10 s."""
TICK_SCENARIO_SECONDS = 900.0
CAUSES = ("bias", "traffic", "slow_rank")
AGAINST = "labelled simulated scenarios"
_DAY = "quiet-normal, a day of 10 s windows"


def run() -> list[Figure]:
    """All figures; minutes."""
    quiet = [name for name in scenarios.names() if name.startswith("quiet-")]
    faulty = [name for name in scenarios.names() if name not in quiet]
    names = [*quiet, _DAY, *faulty, *recorded_names()]
    with ProcessPoolExecutor(cores()) as pool:
        judged = dict(zip(names, pool.map(judge_by_name, names), strict=True))
    told = [judged[name] for name in names[len(quiet) + 1 :]]
    return [
        Figure("detect.tick_s", tick_seconds(), "s", 0.1, "<=", 1, against="58 × 256, one engine"),
        *_quiet_figures([judged[name] for name in (*quiet, _DAY)]),
        *_cause_figures(told),
        Figure("detect.ramp_fraction_at_detection", ramp_fraction(judged[RAMP]), "ratio", 0.30,
               "<=", 1, against=f"{RAMP}, simulated"),
        *(_delay_figure(each) for each in told),
    ]  # fmt: skip


def judge_by_name(name: str) -> Judged:
    """One scenario under the default policy, from its beginning."""
    if name in recorded_names():
        return judge(recorded_run(name))
    if name == _DAY:
        return judge(
            ScenarioRun.of(scenarios.load("quiet-normal").model_copy(
                update=DAY_OF_PRODUCTION_WINDOWS
            ))
        )  # fmt: skip
    return judge(ScenarioRun.of(scenarios.load(name)))


def judge(run: ScenarioRun) -> Judged:
    """A scenario through detectors and decisions of the default policy."""
    policy = suited(DEFAULT, run.scenario.tick_seconds)
    return judge_snapshots(run.scenario, SimulatedHistory(run, policy).snapshots(), policy)


def _quiet_figures(quiet: Sequence[Judged]) -> list[Figure]:
    """Alarms and acts where nothing is wrong."""
    weeks = sum(_watched(each.scenario) for each in quiet) / WEEK
    alarms = sum(each.alarms for each in quiet)
    acts = sum(len([a for a in each.run.actions if not a.relax]) for each in quiet if each.run)
    against = f"{weeks:.1f} quiet simulated weeks, low to high traffic"
    return [
        Figure("detect.false_alarms_30d", alarms * 30.0 / 7.0 / weeks, "alarms", 1.0, "<=",
               len(quiet), against=against),
        Figure("detect.false_alarms_per_week", alarms / weeks, "alarms", 0.25, "<=", len(quiet),
               against=against),
        Figure("detect.false_acts_per_week", acts / weeks, "acts", 0.0, "<=", len(quiet),
               against=against),
    ]  # fmt: skip


def _watched(scenario: Scenario) -> float:
    return scenario.seconds - scenario.warm_seconds


def _cause_figures(told: Sequence[Judged]) -> list[Figure]:
    """Right cause and right act over scenarios; precision and recall by cause."""
    wrong = ", ".join(each.scenario.name for each in told if not each.right_cause) or "none wrong"
    unfit = ", ".join(each.scenario.name for each in told if not each.right_action) or "none wrong"
    early = sum(each.alarms for each in told)
    figures = [
        Figure("detect.scenarios_right_cause_ratio", share(told, "right_cause"), "ratio", 0.9, ">=",
               len(told), against=f"{AGAINST}; wrong: {wrong}"),
        Figure("detect.scenarios_right_action_ratio", share(told, "right_action"), "ratio", 0.9,
               ">=", len(told), against=f"{AGAINST}; wrong: {unfit}"),
        Figure("detect.alarms_before_onset", float(early), "alarms", 0.0, "<=", len(told),
               against=AGAINST),
    ]  # fmt: skip
    for cause in CAUSES:
        named = [each for each in told if cause in each.named]
        meant = [each for each in told if cause in each.wanted]
        both = [each for each in named if cause in each.wanted]
        if named:
            figures.append(Figure(f"detect.precision.{cause}", len(both) / len(named), "ratio", 0.9,
                                  ">=", len(named), against=AGAINST))  # fmt: skip
        if meant:
            figures.append(Figure(f"detect.recall.{cause}", len(both) / len(meant), "ratio", 0.9,
                                  ">=", len(meant), against=AGAINST))  # fmt: skip
    delays = [each.detected_after for each in told if each.detected_after is not None]
    if delays:
        figures.append(Figure("detect.delay_s.median", statistics.median(delays), "s",
                              n=len(delays), against=AGAINST))  # fmt: skip
    return figures


def share(told: Sequence[Judged], what: str) -> float:
    """Part of the scenarios of which this holds."""
    return sum(bool(getattr(each, what)) for each in told) / max(1, len(told))


def _delay_figure(judged: Judged) -> Figure:
    """Seconds from onset to detection; the scenario's whole labelled time when it was missed."""
    truth = judged.scenario.truth
    missed = (truth.end or 0.0) - (truth.onset or 0.0)
    after = judged.detected_after
    told = (
        f"{'missed; ' if after is None else ''}named: {', '.join(sorted(judged.named)) or 'none'}; "
        f"labelled: {', '.join(truth.causes)}; "
        f"act {'right' if judged.right_action else 'wrong'}"
    )
    name = f"detect.delay_s.{judged.scenario.name}"
    return Figure(name, missed if after is None else after, "s", against=told)


def ramp_fraction(judged: Judged) -> float:
    """Part of the bias ramp that was done when it was detected; 1 when it never was."""
    ramp = next(e for e in judged.scenario.events if isinstance(e, BiasRamp))
    return 1.0 if judged.detected_after is None else min(1.0, judged.detected_after / ramp.seconds)


def tick_seconds() -> float:
    """Median seconds of an evaluation that has a new window, of a DeepSeek-V3 engine, all layers.

    Within a fault, so that every detector works.
    """
    base = scenarios.load("bias-ramp-fast")
    engine = base.engine.model_copy(update={"layers": None})
    events = tuple(event.model_copy(update={"at": 400.0}) for event in base.events)
    scenario = base.model_copy(
        update={
            "engine": engine, "events": events, "seconds": TICK_SCENARIO_SECONDS,
            "warm_seconds": 300.0,
        }
    )  # fmt: skip
    history = SimulatedHistory.of(scenario, DEFAULT)
    spent = []
    for at, arrived in windows_of(history.run):
        history.take(at, arrived)
        begun = time.perf_counter()
        history.evaluate(EPOCH + at)
        spent.append(time.perf_counter() - begun)
    return statistics.median(spent[-20:])
