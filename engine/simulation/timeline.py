"""Events of a scenario in force at a time, as conditions of an engine and moves of its bias."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import singledispatchmethod

import numpy as np
import numpy.typing as npt

from engine.simulation.conditions import Conditions, Forced, Outage, Regulator
from engine.simulation.engine import SimulatedEngine
from engine.simulation.events import (
    AnyEvent,
    BiasCast,
    BiasNoise,
    BiasRamp,
    ClockSkew,
    ForcedExpert,
    PromptChange,
    RateChange,
    RegulatorRuns,
    Restart,
    SlowLink,
    SlowRank,
    TelemetryOutage,
    TrafficShift,
)

Floats = npt.NDArray[np.float64]


@dataclass
class Timeline:
    """Applies a scenario to one engine; `apply` is called before every tick, in order of time.

    Attributes:
        events: of the scenario.
        seed: of what is random in a fault.
    """

    events: Sequence[AnyEvent]
    seed: int = 0
    _done: dict[int, float] = field(default_factory=dict)
    _reloads: dict[int, int] = field(default_factory=dict)
    _was_down: bool = False

    def apply(self, engine: SimulatedEngine, now: float) -> None:
        """Bring the engine's conditions and bias to what holds at `now`."""
        conditions = Conditions()
        for index, event in enumerate(self.events):
            if now < event.at:
                continue
            if isinstance(event, BiasRamp | BiasNoise | BiasCast):
                self._move_bias(engine, index, event, now)
            elif isinstance(event, RegulatorRuns):
                self._regulate(engine, index, event, conditions, now)
            else:
                self._set(event, conditions, now)
        if self._was_down and not conditions.down:
            engine.restart()
        self._was_down = conditions.down
        engine.conditions = conditions

    @singledispatchmethod
    def _set(self, event: AnyEvent, conditions: Conditions, now: float) -> None:
        """Conditions that hold while the event does."""

    @_set.register
    def _(self, event: TrafficShift, conditions: Conditions, now: float) -> None:
        if event.active(now):
            part = 1.0 if event.over <= 0 else min(1.0, (now - event.at) / event.over)
            # A coarse grid: routing is recomputed only when the mix has moved.
            part = round(part * 50) / 50
            wanted = np.array(event.mix) / sum(event.mix)
            conditions.mix = (1.0 - part) * conditions.mix + part * wanted

    @_set.register
    def _(self, event: RateChange, conditions: Conditions, now: float) -> None:
        if event.active(now):
            conditions.rate *= event.factor

    @_set.register
    def _(self, event: PromptChange, conditions: Conditions, now: float) -> None:
        if event.active(now):
            conditions.prompt *= event.factor

    @_set.register
    def _(self, event: ForcedExpert, conditions: Conditions, now: float) -> None:
        if event.active(now):
            forced = Forced(event.expert, event.chance, event.layer)
            conditions.forced = (*conditions.forced, forced)

    @_set.register
    def _(self, event: SlowRank, conditions: Conditions, now: float) -> None:
        if event.active(now):
            conditions.slow[event.rank] = event.factor

    @_set.register
    def _(self, event: SlowLink, conditions: Conditions, now: float) -> None:
        if event.active(now):
            conditions.slow_link[event.rank] = event.factor

    @_set.register
    def _(self, event: Restart, conditions: Conditions, now: float) -> None:
        conditions.down |= event.active(now)

    @_set.register
    def _(self, event: TelemetryOutage, conditions: Conditions, now: float) -> None:
        if event.active(now):
            conditions.outage = Outage(event.mode)

    @_set.register
    def _(self, event: ClockSkew, conditions: Conditions, now: float) -> None:
        if event.active(now):
            conditions.clock_offset = event.offset

    def _regulate(
        self, engine: SimulatedEngine, index: int, event: RegulatorRuns,
        conditions: Conditions, now: float,
    ) -> None:  # fmt: skip
        if event.active(now) and self._still_wrong(engine, index):
            conditions.regulator = Regulator(
                sign=event.sign, speed=event.speed, update_tokens=event.update_tokens,
                lag_seconds=event.lag_seconds, clamp=event.clamp,
            )  # fmt: skip

    def _still_wrong(self, engine: SimulatedEngine, index: int) -> bool:
        """False once the bias has been reloaded since the event began: a rollback ends a drift."""
        return self._reloads.setdefault(index, engine.governed.reloads) == engine.governed.reloads

    def _move_bias(
        self, engine: SimulatedEngine, index: int,
        event: BiasRamp | BiasNoise | BiasCast, now: float,
    ) -> None:  # fmt: skip
        bias = engine.governed.live_bias
        if bias is None or not self._still_wrong(engine, index):
            return
        done = self._done.get(index, 0.0)
        part = 1.0
        if isinstance(event, BiasRamp):
            part = min(1.0, (now - event.at) / event.seconds) if event.seconds > 0 else 1.0
        if part <= done:
            return
        self._done[index] = part
        change = self._changes(engine, index, event)
        engine.governed.move_bias(change(bias.astype(np.float64), part - done).astype(np.float32))

    def _changes(
        self, engine: SimulatedEngine, index: int,
        event: BiasRamp | BiasNoise | BiasCast,
    ) -> Callable[[Floats, float], Floats]:  # fmt: skip
        if isinstance(event, BiasCast):
            return lambda bias, _: to_bfloat16(bias)
        shape = engine.model.popularity.shape[1:]
        rows = list(range(shape[0])) if event.layers is None else list(event.layers)
        added = np.zeros(shape)
        if isinstance(event, BiasNoise):
            noise = np.random.default_rng([self.seed, 3, index]).standard_normal(shape)
            added[rows] = event.spread * noise[rows]
        else:
            added[np.ix_(rows, hot_experts(event.hot_by_rank, engine))] = event.relative
        return lambda bias, part: bias + part * added


def hot_experts(by_rank: Sequence[int], engine: SimulatedEngine) -> list[int]:
    """The first so many experts of each rank of the linear placement."""
    held = engine.model.shape.experts // engine.settings.layout.ranks
    return [rank * held + i for rank, count in enumerate(by_rank) for i in range(min(count, held))]


def to_bfloat16(values: Floats) -> Floats:
    """Round to the nearest BF16, ties to even, as FP32 values."""
    bits = values.astype(np.float32).view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    floats: Floats = rounded.astype(np.uint32).view(np.float32).astype(np.float64)
    return floats
