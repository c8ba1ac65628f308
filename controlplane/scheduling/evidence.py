"""What the stored frames say about an engine and about an action's effect."""

import numpy as np

from contract.frame import HISTOGRAM_BOUNDS
from controlplane.actuator.action import Action, ChangeKind, Target, TargetState
from controlplane.actuator.world import Telemetry
from controlplane.history.history import History
from controlplane.history.window import EngineWindow
from controlplane.policy.facts import is_fresh
from controlplane.policy.measurement import Measurement, measure
from controlplane.policy.verdict import Verdict, VerifyResult
from controlplane.policy.verify import verify
from controlplane.scheduling.windows import AlignedWindows
from controlplane.slo.histogram import quantile

STALE_SECONDS = 10.0
REQUEST_SECONDS = 60.0
"""How far back request durations are looked at for settling."""
MIN_SLICES = 4
"""A verification is cut into at least this many slices, for the spread of overflow."""

_WORST = (Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.PASS)


class HistoryEvidence:
    """`actuator.ports.Evidence` over the history."""

    def __init__(self, history: History, windows: AlignedWindows) -> None:
        self._history = history
        self._windows = windows

    def telemetry(self, engine_id: str, at: float) -> Telemetry:
        """Generation and age of the newest frame; p99 of recent request durations."""
        newest = self._history.newest(engine_id)
        if newest is None:
            return Telemetry()
        recent = self._history.window(engine_id, newest.ended - REQUEST_SECONDS, newest.ended)
        return Telemetry(
            generation=newest.header.config_generation,
            fresh=is_fresh(newest.signed_age(at, STALE_SECONDS), STALE_SECONDS),
            request_p99_seconds=None if recent is None else request_p99(recent),
        )

    def verification(self, action: Action, at: float) -> VerifyResult:
        """The worst verdict of the engines that run the change."""
        results = [self._judge(action, target, at) for target in action.applied]
        return min(results, key=lambda result: _WORST.index(result.verdict))

    def _judge(self, action: Action, target: Target, at: float) -> VerifyResult:
        after = self._after(action, target.engine_id, target.generation, at)
        before = action.judging.before.get(target.engine_id, Measurement())
        lkg = self._last_known_good(target.engine_id)
        if action.change.kind is ChangeKind.BIAS_ROLLBACK and action.change.after != lkg:
            # What-if compares with the last known good; of another version it can say nothing.
            after = after.model_copy(update={"share_distance": 0.0})
        return verify(
            before, after, action.change.proposal, action.judging.plan, slo=action.judging.slo,
            control=self._control(action, at),
        )  # fmt: skip

    def _after(
        self, action: Action, engine_id: str, generation: int | None, at: float
    ) -> Measurement:
        newest = self._history.newest(engine_id)
        ended = at if newest is None else min(at, newest.ended)
        length = min(action.judging.window_seconds, action.timing.verify / MIN_SLICES)
        windows = self._windows.between(engine_id, action.phase_since, ended, max(1.0, length))
        return measure(windows, action.judging.slo, generation=generation)

    def _control(self, action: Action, at: float) -> tuple[Measurement, Measurement] | None:
        """A concurrent engine of the group that does not run the change yet."""
        for target in action.targets:
            before = action.judging.before.get(target.engine_id)
            if target.state is TargetState.PENDING and before is not None:
                return before, self._after(action, target.engine_id, None, at)
        return None

    def _last_known_good(self, engine_id: str) -> str | None:
        newest = self._history.newest(engine_id)
        return None if newest is None else newest.header.lkg_bias


def request_p99(window: EngineWindow) -> float | None:
    """p99 of request duration, seconds; None without finished requests."""
    cells = window.arrays.get("request_time")
    return (
        None
        if cells is None
        else quantile(cells.astype(np.float64), HISTOGRAM_BOUNDS["request"], 0.99)
    )
