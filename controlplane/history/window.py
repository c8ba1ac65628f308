"""A window: the sum of one engine's frames over a span of time. Frozen values, no I/O."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from contract.frame import FrameHeader

Sums = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class EngineWindow:
    """What one engine did in [start, end), unix seconds, by the frames' own start times.

    Attributes:
        engine_id: the engine.
        start, end: bounds of the window.
        frames: frames that were summed.
        missing: frames known to be lost inside the window (sequence holes, buffer drops).
        covered_seconds: summed intervals of the frames.
        header: header of the newest frame of the window.
        arrays: sums by array name (`contract.frame.ARRAYS`), without the G axis arrays.
        by_generation: the G axis arrays: generation → array name → sum. `OLDER` (-1) is the rest.
        tokens: summed by phase (prefill, decode).
        steps, sequences, sampled_steps, sampled_tokens: summed.
        admitted, finished, rejected, failed, tpot_measured: requests, summed.
        gate_mass_kept, gate_mass_total: summed.
        live_biases: distinct live bias hashes seen, in order.
    """

    engine_id: str
    start: float
    end: float
    frames: int
    missing: int
    covered_seconds: float
    header: FrameHeader
    arrays: Mapping[str, Sums]
    by_generation: Mapping[int, Mapping[str, Sums]]
    tokens: tuple[int, int]
    steps: int
    sequences: int
    sampled_steps: int
    sampled_tokens: int
    admitted: int
    finished: int
    rejected: int
    failed: int
    tpot_measured: int
    gate_mass_kept: float
    gate_mass_total: float
    live_biases: tuple[str, ...]
    _sums: dict[str, Sums | None] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @property
    def total_tokens(self) -> int:
        """Tokens of both phases."""
        return sum(self.tokens)

    @property
    def assigned(self) -> Sums | None:
        """Assignments by layer [L], over phases and experts; None where none are told."""
        if "assigned" not in self._sums:
            told = self.arrays.get("assignments")
            self._sums["assigned"] = None if told is None else told.sum(axis=(0, 2))
        return self._sums["assigned"]

    @property
    def overflow_by_rung(self) -> Sums | None:
        """Overflow at every rung [R], over layers; None where it is not told."""
        if "by_rung" not in self._sums:
            told = self.arrays.get("overflow_at_rung")
            self._sums["by_rung"] = None if told is None else told.sum(axis=1)
        return self._sums["by_rung"]

    def every_generation(self, name: str) -> Sums | None:
        """A G axis array summed over generations; None where no generation tells of it."""
        if name not in self._sums:
            found = [arrays[name] for arrays in self.by_generation.values() if name in arrays]
            self._sums[name] = np.add.reduce(found) if found else None
        return self._sums[name]
