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
        return (self.arrived, start, np.nan, self.prompt, self.output, self.output, 0.0,
                generation)  # fmt: skip


@dataclass
class Running:
    """Running sequences, one row each, in order of admission.

    Columns: arrived, admitted, first (time of the first token, NaN before), prefill (prompt tokens
    still to do), left (output tokens still to do), output, context (cached tokens), generation.
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


@dataclass
class Batch:
    """Queue and running sequences of one engine."""

    queue: deque[Waiting] = field(default_factory=deque)
    running: Running = field(default_factory=Running)

    def admit(self, now: float, limits: Limits) -> list[Waiting]:
        """Move requests from the queue while sequences and KV cache allow; gives those moved."""
        moved: list[Waiting] = []
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

    def mean_context(self) -> float:
        """Mean cached tokens of the decoding sequences."""
        rows = self.decoding
        return float(self.running.column(Running.CONTEXT)[rows].mean()) if rows.any() else 0.0

    def prefill(self, tokens: float, start: float, rate: float) -> npt.NDArray[np.bool_]:
        """Spend `tokens` on prompts in order, at `rate` tokens/s from `start`; gives rows done."""
        left = self.running.column(Running.PREFILL)
        before = left.copy()
        ends = np.cumsum(before)
        done = np.clip(tokens - (ends - before), 0.0, before)
        left -= done
        self.running.column(Running.CONTEXT)[:] += done
        finished = (before > 0) & (left <= 1e-9)
        left[finished] = 0.0
        first = self.running.column(Running.FIRST)
        first[finished] = np.maximum(
            start + ends[finished] / rate, self.running.column(Running.ADMITTED)[finished]
        )
        self.running.column(Running.LEFT)[finished] -= 1.0
        return finished

    def decode(self, rows: npt.NDArray[np.bool_], steps: Floats) -> Floats:
        """Give every row its steps' tokens, no more than it needs; gives tokens made by row."""
        left = self.running.column(Running.LEFT)
        made = np.where(rows, np.minimum(steps, np.maximum(left, 0.0)), 0.0)
        left -= made
        self.running.column(Running.CONTEXT)[:] += made
        return made
