"""What the parent process sees of requests and steps: histograms by generation, outcomes.

Thread-safe: the server's event loop and the step thread both observe.
"""

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from contract.frame import HISTOGRAM_BOUNDS, PHASES, RequestCounts

Cells = npt.NDArray[np.int64]
Outcome = Literal["admitted", "finished", "rejected", "failed"]


@dataclass(slots=True)
class RequestInterval:
    """What was observed since the last drain.

    Attributes:
        by_generation: array name → generation → cells; int64 [cells], `step_time` [P, cells].
        request_time: int64 [cells] of finished requests.
        sums: sums of the observed seconds by `contract.frame.SUM_KEYS`.
        requests: outcomes.
        steps, step_first, step_last: engine steps; first > last when none ran.
        tokens: computed tokens by phase.
        sequences: distinct sequences that had a token.
    """

    by_generation: dict[str, dict[int, Cells]] = field(default_factory=dict)
    request_time: Cells = field(
        default_factory=lambda: np.zeros(len(HISTOGRAM_BOUNDS["request"]) + 1, dtype=np.int64)
    )
    sums: dict[str, float] = field(default_factory=dict)
    requests: RequestCounts = field(default_factory=RequestCounts)
    steps: int = 0
    step_first: int = 0
    step_last: int = -1
    tokens: tuple[int, int] = (0, 0)
    sequences: int = 0


class RequestMetrics:
    """Observe as things happen, drain once a frame."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._clear()

    def _clear(self) -> None:
        self._now = RequestInterval()
        self._outcomes: Counter[str] = Counter()
        self._tokens = [0, 0]
        self._sequences: set[str] = set()

    def observe_ttft(self, generation: int, seconds: float) -> None:
        """Arrival to first token of a request admitted under `generation`."""
        self._observe("ttft", "ttft", generation, seconds)

    def observe_tpot(self, generation: int, seconds: float) -> None:
        """(end - first token) / (output tokens - 1) of a finished request, outputs > 1."""
        self._observe("tpot", "tpot", generation, seconds)
        with self._lock:
            self._outcomes["tpot_measured"] += 1

    def observe_queue(self, generation: int, seconds: float) -> None:
        """Arrival to admission."""
        self._observe("queue_time", "queue", generation, seconds)

    def observe_inter_tokens(self, generation: int, seconds: Sequence[float]) -> None:
        """Gaps between two output tokens of a step's sequences, by live generation."""
        bounds = HISTOGRAM_BOUNDS["itl"]
        with self._lock:
            cells = self._cells("inter_token", generation, (len(bounds) + 1,))
            for gap in seconds:
                cells[bisect_left(bounds, gap)] += 1
            self._add_sum("itl", sum(seconds))

    def observe_request(self, seconds: float) -> None:
        """Arrival to last token of a finished request."""
        cell = bisect_left(HISTOGRAM_BOUNDS["request"], seconds)
        with self._lock:
            self._now.request_time[cell] += 1
            self._add_sum("request", seconds)

    def observe_step(
        self, *, step: int, generation: int, seconds: float,
        prefill_tokens: int, decode_tokens: int, sequence_ids: Iterable[str] = (),
    ) -> None:  # fmt: skip
        """One engine step over the EP group; a step with any prefill token is a prefill step."""
        phase = 0 if prefill_tokens else 1
        cell = bisect_left(HISTOGRAM_BOUNDS["step"], seconds)
        with self._lock:
            now = self._now
            if now.steps == 0:
                now.step_first = step
            now.step_last = step
            now.steps += 1
            self._tokens[0] += prefill_tokens
            self._tokens[1] += decode_tokens
            self._sequences.update(sequence_ids)
            if prefill_tokens or decode_tokens:
                shape = (len(PHASES), len(HISTOGRAM_BOUNDS["step"]) + 1)
                self._cells("step_time", generation, shape)[phase, cell] += 1
                self._add_sum(f"step.{PHASES[phase]}", seconds)

    def count(self, outcome: Outcome) -> None:
        """One request was admitted, finished, rejected (429) or failed."""
        with self._lock:
            self._outcomes[outcome] += 1

    def drain(self) -> RequestInterval:
        """Take all since the last drain, and start anew."""
        with self._lock:
            taken = self._now
            taken.requests = RequestCounts(**self._outcomes)
            taken.tokens = (self._tokens[0], self._tokens[1])
            taken.sequences = len(self._sequences)
            self._clear()
        return taken

    def _observe(self, array: str, bounds: str, generation: int, seconds: float) -> None:
        cell = bisect_left(HISTOGRAM_BOUNDS[bounds], seconds)
        with self._lock:
            shape = (len(HISTOGRAM_BOUNDS[bounds]) + 1,)
            self._cells(array, generation, shape)[cell] += 1
            self._add_sum(bounds, seconds)

    def _cells(self, array: str, generation: int, shape: tuple[int, ...]) -> Cells:
        rows = self._now.by_generation.setdefault(array, {})
        if generation not in rows:
            rows[generation] = np.zeros(shape, dtype=np.int64)
        return rows[generation]

    def _add_sum(self, key: str, seconds: float) -> None:
        self._now.sums[key] = self._now.sums.get(key, 0.0) + seconds
