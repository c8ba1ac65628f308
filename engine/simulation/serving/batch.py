"""Continuous batching in blocks of steps: who runs, who waits, and when each token came.

A block is a run of steps of the same make-up: mixed ones while prompts are being prefilled (decode
first, then prompts in order, up to the token budget), decode-only ones after that. Within a block
time is linear in tokens, so first tokens and ends have exact times.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


class Waiting(NamedTuple):
    """A request in the queue; `cached` when another pool has prefilled its prompt."""

    arrived: float
    prompt: int
    output: int
    cached: bool = False

    def row(self, now: float, generation: int) -> tuple[float, ...]:
        """Its row in `Running` when it is admitted at `now`."""
        start = max(now, self.arrived)
        if self.cached:
            return (self.arrived, start, start, 0.0, self.output - 1, self.output, self.prompt,
                    generation)  # fmt: skip
        return (self.arrived, start, np.inf, self.prompt, self.output, self.output, 0.0,
                generation)  # fmt: skip


@dataclass
class Running:
    """Running sequences, one row each, in order of admission.

    Columns: arrived, admitted, first (time of the first token, infinite before), prefill (prompt
    tokens still to do), left (output tokens still to do), output, context (cached tokens),
    generation.
    """

    rows: Floats = field(default_factory=lambda: np.empty((0, 8)))

    ARRIVED, ADMITTED, FIRST, PREFILL, LEFT, OUTPUT, CONTEXT, GENERATION = range(8)

    def __len__(self) -> int:
        return len(self.rows)

    def add(self, entries: list[tuple[float, ...]]) -> None:
        """Append admitted sequences."""
        if entries:
            self.rows = np.concatenate([self.rows, np.array(entries, dtype=np.float64)])

    def column(self, index: int) -> Floats:
        """One column, writable."""
        column: Floats = self.rows[:, index]
        return column

    def remove(self, gone: npt.NDArray[np.bool_]) -> Floats:
        """Take rows out and give them."""
        taken: Floats = self.rows[gone]
        self.rows = self.rows[~gone]
        return taken


@dataclass(frozen=True, slots=True)
class Limits:
    """What the scheduler goes by in a block."""

    concurrency: int
    chunk_size: int
    kv_tokens: float
    queue: int
    generation: int
    prompts_cached: bool = False


@dataclass(frozen=True, slots=True)
class PrefillPlan:
    """What a block spends on prompts.

    Attributes:
        rows: [n], of `Running`. tokens: [n], spent on each. first: [n], time of its first token,
            where `finished`.
        steps: that hold prompt tokens. prompts: of one such step, mean.
    """

    rows: npt.NDArray[np.intp]
    tokens: Floats
    first: Floats
    finished: npt.NDArray[np.bool_]
    steps: float
    prompts: float

    @property
    def per_step(self) -> float:
        """Prompt tokens of one such step."""
        return float(self.tokens.sum()) / self.steps if self.steps > 0 else 0.0


@dataclass
class Batch:
    """Queue and running sequences of one engine."""

    queue: deque[Waiting] = field(default_factory=deque)
    running: Running = field(default_factory=Running)

    def admit(self, now: float, limits: Limits) -> list[Waiting]:
        """Move requests from the queue while sequences and KV cache allow; gives those moved."""
        moved: list[Waiting] = []
        if not self.queue:
            return moved
        held = float(self.running.column(Running.CONTEXT).sum()) + float(
            self.running.column(Running.PREFILL).sum()
        )
        while self.queue and len(self.running) + len(moved) < limits.concurrency:
            head = self.queue[0]
            needed = head.prompt + head.output
            if held + needed > limits.kv_tokens and len(self.running) + len(moved) > 0:
                break
            held += needed
            moved.append(self.queue.popleft())
        self.running.add([waiting.row(now, limits.generation) for waiting in moved])
        return moved

    @property
    def decoding(self) -> npt.NDArray[np.bool_]:
        """Rows past their prefill that still have tokens to make."""
        left = self.running.column(Running.LEFT)
        mask: npt.NDArray[np.bool_] = (self.running.column(Running.PREFILL) <= 0) & (left > 1e-9)
        return mask

    def mean_context(self, rows: npt.NDArray[np.bool_]) -> float:
        """Mean cached tokens of the sequences in `rows`."""
        count = np.count_nonzero(rows)
        return float(self.running.column(Running.CONTEXT) @ rows) / count if count else 0.0

    def present(self, rows: npt.NDArray[np.bool_], now: float, length: float) -> Floats:
        """Part of a block of `length` seconds from `now` for which each of `rows` is here."""
        part = (now + length - self.running.column(Running.FIRST)) / length
        here: Floats = np.maximum(0.0, np.minimum(1.0, part)) * rows
        return here

    def prefill_plan(self, start: float, each: float, budget: float, most: float) -> "PrefillPlan":
        """Prompts in order of admission, `budget` tokens a step of `each` seconds, from `start`.

        A prompt waits for the next step and for the prompts before it; its first token comes at
        the end of its last step. `most` steps fit in the block.
        """
        left = self.running.column(Running.PREFILL)
        rows = np.flatnonzero(left > 0)
        admitted = self.running.column(Running.ADMITTED)[rows]
        come = np.ceil(np.maximum(0.0, admitted - start) / each - 1e-9)
        work = left[rows] / budget
        done = np.cumsum(work)
        ends = done + np.maximum(0.0, np.maximum.accumulate(come - (done - work)))
        begun = ends - work
        spent = np.maximum(0.0, np.minimum(most - begun, work))
        first, last = np.floor(begun + 1e-9), np.ceil(np.minimum(ends, most) - 1e-9)
        before = np.concatenate([[0.0], last[:-1]])
        own = np.maximum(0.0, last - np.maximum(first, before))[spent > 0]
        shared = np.maximum(0.0, last - first)[spent > 0]
        steps = min(most, float(own.sum()))
        return PrefillPlan(
            rows, spent * budget, start + np.ceil(ends - 1e-9) * each, ends <= most + 1e-9, steps,
            float(shared.sum()) / max(float(own.sum()), 1.0),
        )  # fmt: skip

    def prefill(self, plan: "PrefillPlan") -> npt.NDArray[np.bool_]:
        """Carry a plan out; gives the rows whose first token came."""
        columns = self.running.rows
        columns[plan.rows, Running.PREFILL] -= plan.tokens
        columns[plan.rows, Running.CONTEXT] += plan.tokens
        done = plan.rows[plan.finished]
        columns[done, Running.PREFILL] = 0.0
        columns[done, Running.FIRST] = plan.first[plan.finished]
        columns[done, Running.LEFT] -= 1.0
        finished = np.zeros(len(self.running), dtype=np.bool_)
        finished[done] = True
        return finished

    def decode(self, rows: npt.NDArray[np.bool_], steps: Floats) -> Floats:
        """Give every row its steps' tokens, no more than it needs; gives tokens made by row."""
        left = self.running.column(Running.LEFT)
        made = np.where(rows, np.minimum(steps, np.maximum(left, 0.0)), 0.0)
        left -= made
        self.running.column(Running.CONTEXT)[:] += made
        return made
