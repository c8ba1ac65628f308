"""What one rank counted in one interval, on the host: the unit that ranks hand to the parent."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.int64]


def no_exchanges(layers: int) -> npt.NDArray[np.float32]:
    """An empty log of all-to-all times, float32 [0, 2, 2, layers]."""
    return np.zeros((0, 2, 2, layers), dtype=np.float32)


@dataclass(frozen=True, slots=True)
class RankCounts:
    """One rank's counts of an interval; picklable. Sums over ranks are the group's counts.

    Attributes:
        rank: who counted.
        arrays: int64, by the names of `contract.frame.ARRAYS`: the routing arrays of every rank,
            the group-wide capacity arrays of rank 0 alone, and this rank's payload bytes.
        period: whether the `bucket_*` arrays are in `arrays`.
        steps: steps of the interval.
        step_first, step_last: their ids, first > last when none ran.
        step_ids: int64 [S] and step_phases: int64 [S], one a step that had an exchange.
        exchange_seconds: float32 [S, O, W, L], this rank's all-to-all wait and transfer.
        message_cells: int64 [O, cells], payload bytes per peer message; message_bytes: their sums.
        generation_assignments, generation_overflow: all layers, by live generation; rank 0 alone.
        gate_mass_kept, gate_mass_total: sums over this rank's tokens and all layers.
        required_capacity_factor: max of count · E / (T·k) over layers and steps that overflow at
            C = 1, at least 1; 0 when no step ran; rank 0 alone.
        sampled_steps, sampled_tokens: of shadow routing; tokens of this rank.
    """

    rank: int
    arrays: dict[str, Array]
    period: bool = False
    steps: int = 0
    step_first: int = 0
    step_last: int = -1
    step_ids: Array = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    step_phases: Array = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    exchange_seconds: npt.NDArray[np.float32] = field(default_factory=lambda: no_exchanges(0))
    message_cells: Array | None = None
    message_bytes: tuple[float, float] = (0.0, 0.0)
    generation_assignments: dict[int, int] = field(default_factory=dict)
    generation_overflow: dict[int, int] = field(default_factory=dict)
    gate_mass_kept: float = 0.0
    gate_mass_total: float = 0.0
    required_capacity_factor: float = 0.0
    sampled_steps: int = 0
    sampled_tokens: int = 0
