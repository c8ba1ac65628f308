"""Holds what detectors and policy said of a simulated scenario against its labels. Strict.

- *Detected*: a labelled detector fires, or a labelled SLO is in breach (or the telemetry is called
  stale), between onset and end. The delay is counted from the onset.
- *Named*: an attribution counts while a detector of `ACTING` fires, from `HELD` evaluations in a
  row on. Every labelled cause has to be named and no other one may be; where the label is
  "unknown", none may be named.
- *Acted right*: the policy is replayed on the recorded history. One of the knobs that mend has to
  be turned, where there are any; a knob that neither mends nor eases may never be turned.
- *False alarm*: outside the labelled time a detector of `ACTING` fires; counted once until it has
  been silent for an hour. What follows an incident is not counted.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from controlplane.detectors.finding import DetectorName, FindingState
from controlplane.policy.backtest import Run, replay
from controlplane.policy.policy import Policy
from controlplane.policy.snapshot import Snapshot
from controlplane.slo.status import SloState
from engine.simulation.run import EPOCH
from engine.simulation.scenario import Scenario
from trimtab.simulated.history import incidents_of

ACTING = frozenset({DetectorName.BIAS_DRIFT, DetectorName.LOAD_CHANGE, DetectorName.STRAGGLER})
"""Detectors whose firing alone leads to an act, an attribution or a page."""
HELD = 3
AGAIN_SECONDS = 3600.0
UNKNOWN = "unknown"


@dataclass
class Judged:
    """What was said of one scenario.

    Attributes:
        named: causes that were held.
        detected_after: seconds from onset to the first labelled sign.
        alarms: false ones.
        run: the replay of the policy on it.
    """

    scenario: Scenario
    named: set[str] = field(default_factory=set)
    detected_after: float | None = None
    alarms: int = 0
    run: Run | None = None
    _last_alarm: float = float("-inf")
    _row: tuple[str, int] = ("", 0)

    @property
    def wanted(self) -> set[str]:
        """Causes that have to be named."""
        return {str(cause) for cause in self.scenario.truth.causes} - {UNKNOWN}

    @property
    def right_cause(self) -> bool:
        """Detected, every labelled cause named, and no other."""
        return self.detected_after is not None and self.named == self.wanted

    @property
    def right_action(self) -> bool:
        """No act that neither mends nor eases, and one that mends where there is one."""
        if self.run is None:
            return False
        knobs = {action.knob.value for action in self.run.actions if not action.relax}
        mends = set(self.scenario.truth.knobs)
        return not self.run.false_actions and (not mends or bool(knobs & mends))

    def see(self, snapshot: Snapshot) -> None:
        """One evaluation, in time order."""
        truth, at = self.scenario.truth, snapshot.at - EPOCH
        firing = {f.detector for f in snapshot.findings if f.state is FindingState.FIRING}
        if truth.onset is not None and truth.end is not None and at > truth.onset:
            if at <= truth.end:
                self._inside(snapshot, firing, at - truth.onset)
        elif at > self.scenario.warm_seconds and firing & ACTING:
            self.alarms += at - self._last_alarm > AGAIN_SECONDS
            self._last_alarm = at

    def _inside(self, snapshot: Snapshot, firing: set[DetectorName], since: float) -> None:
        truth = self.scenario.truth
        signs = {slo.slo.value for slo in snapshot.slos if slo.state is SloState.BREACHED}
        signs |= set() if snapshot.fresh else {"stale"}
        shown = {name.value for name in firing} & set(truth.detectors) or signs & set(truth.signs)
        if shown and self.detected_after is None:
            self.detected_after = since
        cause = snapshot.attribution.cause.value if snapshot.attribution else UNKNOWN
        if not firing & ACTING:
            cause = UNKNOWN
        self._row = (cause, self._row[1] + 1 if self._row[0] == cause else 1)
        if cause != UNKNOWN and self._row[1] >= HELD:
            self.named.add(cause)


def judge_snapshots(scenario: Scenario, snapshots: Iterable[Snapshot], policy: Policy) -> Judged:
    """A scenario's snapshots, and the policy replayed on them, held against the labels."""
    judged = Judged(scenario)

    def seen() -> Iterator[Snapshot]:
        for snapshot in snapshots:
            judged.see(snapshot)
            if snapshot.at - EPOCH > scenario.warm_seconds:
                yield snapshot

    judged.run = replay(seen(), policy, incidents=incidents_of(scenario))
    return judged
