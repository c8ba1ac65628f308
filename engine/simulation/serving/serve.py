"""One tick of serving: admit, step, finish; what the tick's frame needs to know of it."""

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from engine.simulation.serving.batch import Batch, Limits, Running, Waiting
from engine.simulation.serving.step_clock import StepCost
from engine.simulation.serving.traffic import Arrivals

Floats = npt.NDArray[np.float64]
BLOCKS = 10
"""Blocks of a tick: queues and batches are looked at this often."""


@dataclass(frozen=True, slots=True)
class StepKind:
    """Steps of one make-up within a tick.

    Attributes:
        steps: how many; not whole, the frame rounds with a carry.
        decode, prefill: tokens of one step. sequences: distinct ones behind them.
        seconds: of one step. cost: its parts.
    """

    steps: float
    decode: float
    prefill: float
    sequences: float
    seconds: float
    cost: StepCost

    @property
    def tokens(self) -> float:
        """T."""
        return self.decode + self.prefill


@dataclass
class Tick:
    """What happened in a tick; times are seconds, [n] each, with generation of admission."""

    seconds: float
    kinds: list[StepKind] = field(default_factory=list)
    ttft: list[tuple[int, Floats]] = field(default_factory=list)
    tpot: list[tuple[int, Floats]] = field(default_factory=list)
    queue_time: list[tuple[int, Floats]] = field(default_factory=list)
    request_time: list[Floats] = field(default_factory=list)
    admitted: int = 0
    finished: int = 0
    rejected: int = 0

    @property
    def steps(self) -> float:
        """Steps of all kinds."""
        return sum(kind.steps for kind in self.kinds)

    def tokens(self) -> tuple[float, float]:
        """Prefill and decode tokens."""
        return (
            sum(kind.steps * kind.prefill for kind in self.kinds),
            sum(kind.steps * kind.decode for kind in self.kinds),
        )


class Pace(Protocol):
    """Tells how long a step takes."""

    def step(self, decode: float, prefill: float, context: float) -> tuple[float, StepCost]:
        """Seconds of a step of the EP group's tokens, and its parts."""
        ...


def serve(
    batch: Batch, arrivals: Arrivals, limits: Limits, pace: Pace, start: float, seconds: float
) -> Tick:
    """Run a tick of `seconds` from `start`."""
    tick = Tick(seconds)
    length = seconds / BLOCKS
    edges = np.searchsorted(arrivals.offsets, np.arange(1, BLOCKS + 1) * length)
    taken = 0
    for block, edge in enumerate(edges):
        now = start + block * length
        for i in range(taken, int(edge)):
            _arrive(batch, arrivals, i, start, limits, tick)
        taken = int(edge)
        _block(batch, limits, pace, now, length, tick)
    return tick


def _arrive(
    batch: Batch, arrivals: Arrivals, index: int, start: float, limits: Limits, tick: Tick
) -> None:
    if len(batch.queue) >= limits.queue:
        tick.rejected += 1
        return
    batch.queue.append(
        Waiting(
            start + float(arrivals.offsets[index]), int(arrivals.prompts[index]),
            int(arrivals.outputs[index]), limits.prompts_cached,
        )
    )  # fmt: skip


def _block(batch: Batch, limits: Limits, pace: Pace, now: float, length: float, tick: Tick) -> None:
    moved = batch.admit(now, limits)
    if moved:
        tick.admitted += len(moved)
        waits = np.array([max(0.0, now - w.arrived) for w in moved])
        tick.queue_time.append((limits.generation, waits))
    if len(batch.running) == 0:
        return
    decoding = batch.decoding
    decode = float(decoding.sum())
    context = batch.mean_context()
    backlog = float(batch.running.column(Running.PREFILL).sum())
    prefilled = np.zeros(len(batch.running), dtype=np.bool_)
    mixed_seconds, mixed_steps = 0.0, 0.0
    if backlog > 0:
        budget = max(1.0, min(limits.chunk_size - decode, backlog))
        each, cost = pace.step(decode, budget, context)
        mixed_steps = min(length / each, backlog / budget)
        mixed_seconds = mixed_steps * each
        prompts = float((batch.running.column(Running.PREFILL) > 0).sum())
        share = max(1.0, prompts * budget / backlog)
        tick.kinds.append(StepKind(mixed_steps, decode, budget, decode + share, each, cost))
        prefilled = batch.prefill(mixed_steps * budget, now, budget / each)
    decode_steps = _decode_only(batch, pace, length - mixed_seconds, decode, context, tick)
    _advance(batch, decoding, prefilled, mixed_steps + decode_steps, now, length, tick)


def _decode_only(
    batch: Batch, pace: Pace, seconds: float, decode: float, context: float, tick: Tick
) -> float:
    """Decode-only steps of what is left of a block."""
    decode = decode or float(batch.decoding.sum())
    if seconds <= 1e-9 or decode == 0:
        return 0.0
    each, cost = pace.step(decode, 0.0, context or batch.mean_context())
    steps = seconds / each
    tick.kinds.append(StepKind(steps, decode, 0.0, decode, each, cost))
    return steps


def _advance(
    batch: Batch, decoding: npt.NDArray[np.bool_], prefilled: npt.NDArray[np.bool_], steps: float,
    now: float, length: float, tick: Tick,
) -> None:  # fmt: skip
    """Tokens of the block, first tokens, and sequences that ended in it."""
    running = batch.running
    first = running.column(Running.FIRST)
    share = np.where(decoding, 1.0, np.clip((now + length - first) / length, 0.0, 1.0))
    rows = decoding | prefilled
    before = running.column(Running.LEFT).copy()
    given = np.where(rows, steps * np.nan_to_num(share), 0.0)
    batch.decode(rows, given)
    _note(tick.ttft, running.rows[prefilled], lambda r: r[:, Running.FIRST] - r[:, Running.ARRIVED])
    ended = rows & (running.column(Running.LEFT) <= 1e-9)
    if not ended.any():
        return
    part = np.divide(before, given, out=np.zeros_like(before), where=given > 0)[ended]
    begun = np.where(decoding, now, np.nan_to_num(first, nan=now))[ended]
    ends = begun + np.clip(part, 0.0, 1.0) * (now + length - begun)
    gone = running.remove(ended)
    tick.finished += len(gone)
    tick.request_time.append(ends - gone[:, Running.ARRIVED])
    several = gone[:, Running.OUTPUT] > 1
    spent = (ends - gone[:, Running.FIRST])[several] / (gone[several, Running.OUTPUT] - 1.0)
    for generation in np.unique(gone[several, Running.GENERATION]):
        chosen = gone[several, Running.GENERATION] == generation
        tick.tpot.append((int(generation), spent[chosen]))


def _note(into: list[tuple[int, Floats]], rows: Floats, value: "_Value") -> None:
    for generation in np.unique(rows[:, Running.GENERATION]):
        chosen = rows[rows[:, Running.GENERATION] == generation]
        into.append((int(generation), value(chosen)))


class _Value(Protocol):
    def __call__(self, rows: Floats) -> Floats: ...
