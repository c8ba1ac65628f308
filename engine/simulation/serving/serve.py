"""One tick of serving: admit, step, finish; what the tick's frame needs to know of it."""

import math
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from engine.simulation.serving.batch import Batch, Limits, PrefillPlan, Running, Waiting
from engine.simulation.serving.step_clock import StepCost
from engine.simulation.serving.traffic import Arrivals

Floats = npt.NDArray[np.float64]
BLOCKS = 5
"""Blocks of a tick, at least: queues and batches are looked at this often."""
BLOCK_SECONDS, MOST_BLOCKS = 2.0, 20
"""A block is no longer than this, short beside the life of a request, while so many blocks do."""

_MOST_ROUNDS, _SETTLED = 5, 0.03


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
    blocks = min(MOST_BLOCKS, max(BLOCKS, math.ceil(seconds / BLOCK_SECONDS)))
    length = seconds / blocks
    edges = np.searchsorted(arrivals.offsets, np.arange(1, blocks + 1) * length)
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
    here = batch.present(decoding, now, length)
    left = batch.running.column(Running.LEFT)
    context = batch.mean_context(decoding)
    mixed, prefilled = 0.0, np.zeros(len(batch.running), dtype=np.bool_)
    spent = 0.0
    if batch.running.column(Running.PREFILL).any():
        plan, kind = _mixed(batch, limits, pace, (now, length), here, context)
        prefilled = batch.prefill(plan)
        mixed, spent = plan.steps, plan.steps * kind.seconds
        tick.kinds.append(kind)
        here += batch.present(prefilled, now, length)
    steps = _decode_only(pace, left, here, (length, length - spent), context, tick)
    _advance(batch, (decoding, prefilled), mixed + steps, now, length, tick)


def _mixed(
    batch: Batch, limits: Limits, pace: Pace, block: tuple[float, float], here: Floats,
    context: float,
) -> tuple[PrefillPlan, StepKind]:  # fmt: skip
    """Steps that hold prompt tokens: decode first, then prompts up to the token budget.

    A step's length and what is in it depend on each other: from steps of one mean prompt on, until
    the length stays.
    """
    now, length = block
    left, prompts = batch.running.column(Running.LEFT), batch.running.column(Running.PREFILL)
    decode = float(here.sum())
    tokens = float(prompts.sum()) / np.count_nonzero(prompts)
    each, _ = pace.step(decode, max(1.0, min(limits.chunk_size - decode, tokens)), context)
    rounds = 0
    while True:
        rounds += 1
        decode = _active(left, here, length / each)
        plan = batch.prefill_plan(now, each, max(1.0, limits.chunk_size - decode), length / each)
        after, cost = pace.step(decode, max(1.0, plan.per_step), context)
        if rounds == _MOST_ROUNDS or abs(after - each) <= _SETTLED * each:
            break
        each = after
    kind = StepKind(plan.steps, decode, plan.per_step, decode + plan.prompts, each, cost)
    return plan, kind


def _decode_only(
    pace: Pace, left: Floats, here: Floats, block: tuple[float, float], context: float, tick: Tick
) -> float:
    """Decode-only steps of what is left of a block (its length, and the seconds left of it)."""
    length, seconds = block
    decode = float(here.sum())
    if seconds <= 1e-9 or decode <= 0:
        return 0.0
    each, _ = pace.step(decode, 0.0, context)
    decode = _active(left, here, length / each)
    each, cost = pace.step(decode, 0.0, context)
    steps = seconds / each
    tick.kinds.append(StepKind(steps, decode, 0.0, decode, each, cost))
    return steps


def _active(left: Floats, here: Floats, steps: float) -> float:
    """Mean sequences of a step: some come within the block, some end in it."""
    return float(np.minimum(here, np.maximum(left, 0.0) / steps).sum())


def _advance(
    batch: Batch, who: tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]], steps: float,
    now: float, length: float, tick: Tick,
) -> None:  # fmt: skip
    """Tokens of the block, first tokens, and sequences that ended in it."""
    running = batch.running
    decoding, prefilled = who
    first = running.column(Running.FIRST)
    rows = decoding | prefilled
    before = running.column(Running.LEFT).copy()
    given = steps * batch.present(rows, now, length)
    batch.decode(rows, given)
    begun = running.rows[prefilled]
    _note(
        tick.ttft, begun[:, Running.GENERATION], begun[:, Running.FIRST] - begun[:, Running.ARRIVED]
    )
    ended = rows & (running.column(Running.LEFT) <= 1e-9)
    if not ended.any():
        return
    part = before[ended] / np.maximum(given[ended], 1e-12)
    begun = np.maximum(now, first[ended])
    ends = begun + np.minimum(part, 1.0) * (now + length - begun)
    gone = running.remove(ended)
    tick.finished += len(gone)
    tick.request_time.append(ends - gone[:, Running.ARRIVED])
    several = gone[:, Running.OUTPUT] > 1
    spent = (ends - gone[:, Running.FIRST])[several] / (gone[several, Running.OUTPUT] - 1.0)
    _note(tick.tpot, gone[several, Running.GENERATION], spent)


def _note(into: list[tuple[int, Floats]], generations: Floats, values: Floats) -> None:
    """Values by generation of admission; one generation nearly always."""
    if len(values) == 0:
        return
    if generations[0] == generations[-1] and (generations == generations[0]).all():
        into.append((int(generations[0]), values))
        return
    into.extend((int(each), values[generations == each]) for each in np.unique(generations))


def joined(kinds: list[StepKind]) -> StepKind:
    """One kind with the mean tokens and time of several."""
    weights = np.array([kind.steps for kind in kinds])
    total = float(weights.sum())
    if total <= 0:
        return kinds[0]
    widest = kinds[int(weights.argmax())]

    def mean(values: list[float]) -> float:
        return float((weights * np.array(values)).sum() / total)

    return StepKind(
        steps=total, decode=mean([kind.decode for kind in kinds]),
        prefill=mean([kind.prefill for kind in kinds]),
        sequences=mean([kind.sequences for kind in kinds]),
        seconds=mean([kind.seconds for kind in kinds]), cost=widest.cost,
    )  # fmt: skip
