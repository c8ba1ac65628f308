"""A scenario on one engine, tick by tick: the frames that leave it, in the order they leave."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from contract.frame_codec import Frame
from engine.simulation.conditions import Outage
from engine.simulation.engine import SimulatedEngine
from engine.simulation.scenario import Scenario
from engine.simulation.timeline import Timeline

EPOCH = 1_700_000_000.0
"""Unix time of a run in process; nothing of it depends on the wall clock."""


@dataclass
class ScenarioRun:
    """One engine under a scenario.

    Attributes:
        scenario, engine: what runs.
        at: seconds on the scenario's clock.
    """

    scenario: Scenario
    engine: SimulatedEngine
    at: float = 0.0
    _timeline: Timeline = field(init=False)
    _held: list[Frame] = field(default_factory=list)
    dropped: int = 0

    def __post_init__(self) -> None:
        """The timeline of this engine."""
        self._timeline = Timeline(self.scenario.events, self.engine.settings.seed)

    @classmethod
    def of(cls, scenario: Scenario, *, seed: int = 0) -> "ScenarioRun":
        """One fresh engine of a scenario."""
        return cls(scenario, SimulatedEngine(scenario.settings(seed=seed)))

    def tick(self, seconds: float, started_unix: float, *, speed: float = 1.0) -> list[Frame]:
        """Advance the engine by `seconds` and the scenario by `speed` times as much.

        Returns:
            Frames that leave now: none in an outage, several after one that held them.
        """
        engine = self.engine
        self._timeline.apply(engine, self.at)
        self.at += seconds * speed
        if engine.conditions.down:
            engine.pass_time(seconds)
            return []
        frame = engine.tick(seconds, started_unix)
        outage = engine.conditions.outage
        if outage is Outage.LOSE:
            self.dropped += 1
            return []
        if self.dropped:
            header = frame.header.model_copy(update={"dropped_before": self.dropped})
            frame = Frame(header, frame.arrays)
        if outage is Outage.HOLD:
            self._held.append(frame)
            return []
        held, self._held = self._held, []
        return [*held, frame]

    def frames(self) -> Iterator[tuple[float, list[Frame]]]:
        """The whole scenario in process: end of each tick (unix seconds), and what left in it."""
        step = self.scenario.tick_seconds
        for index in range(round(self.scenario.seconds / step)):
            started = EPOCH + index * step
            yield started + step, self.tick(step, started)
