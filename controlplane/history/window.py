"""A window: the sum of one engine's frames over a span of time. Frozen values, no I/O."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from contract.frame import FrameHeader

Sums = npt.NDArray[np.unsignedinteger[Any]]
"""Sums are made in 64 bits; a window that is kept may hold them in fewer. Add with a dtype."""
Topology = tuple[int, int]
"""Layers and experts of a model."""
Value = TypeVar("Value")


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
        left_out: frames of another model (layers, experts) than the newest frame's: arrays by
            layer and expert leave them out, all else counts them.
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
    left_out: int = 0
    _memory: dict[str, tuple[object, Any]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @property
    def total_tokens(self) -> int:
        """Tokens of both phases."""
        return sum(self.tokens)

    def remembered(
        self, name: str, compute: Callable[["EngineWindow"], Value], of: object = None
    ) -> Value:
        """`compute(self)`, done once: windows of the last minutes are looked at in every tick.

        `of` is what else the value depends on; another one (by ==) computes anew.
        """
        known = self._memory.get(name)
        if known is None or known[0] != of:
            known = self._memory[name] = (of, compute(self))
        value: Value = known[1]
        return value

    @property
    def assigned(self) -> Sums | None:
        """Assignments by layer [L], over phases and experts; None where none are told."""
        return self.remembered("assigned", lambda w: _summed(w.arrays.get("assignments"), (0, 2)))

    @property
    def overflow_by_rung(self) -> Sums | None:
        """Overflow at every rung [R], over layers; None where it is not told."""
        return self.remembered("rungs", lambda w: _summed(w.arrays.get("overflow_at_rung"), (1,)))

    def every_generation(self, name: str) -> Sums | None:
        """A G axis array summed over generations; None where no generation tells of it."""

        def summed(window: "EngineWindow") -> Sums | None:
            found = [each[name] for each in window.by_generation.values() if name in each]
            return np.add.reduce(found) if found else None

        return self.remembered(f"every generation of {name}", summed)


def _summed(array: Sums | None, axes: tuple[int, ...]) -> Sums | None:
    return None if array is None else array.sum(axis=axes)
