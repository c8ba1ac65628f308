"""Host-side log of one rank's all-to-alls: kept raw per step, so the slowest rank can be found."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from contract.frame import HISTOGRAM_BOUNDS, OPS, PARTS
from engine.telemetry.histogram_cells import cells_of


@dataclass(frozen=True, slots=True)
class Exchanges:
    """One interval of a rank's all-to-alls.

    Attributes:
        step_ids, step_phases: int64 [S].
        seconds: float32 [S, O, W, L], wait and transfer.
        payload_bytes: int64 [O], sent to other ranks.
        message_cells: int64 [O, cells]; message_bytes: sums by op.
    """

    step_ids: npt.NDArray[np.int64]
    step_phases: npt.NDArray[np.int64]
    seconds: npt.NDArray[np.float32]
    payload_bytes: npt.NDArray[np.int64]
    message_cells: npt.NDArray[np.int64]
    message_bytes: tuple[float, float]


class ExchangeLog:
    """Times per step and layer, payload per peer message; appends only, O(1) a call.

    What an all-to-all cost is known one step later, so every layer tells it then.

    Args:
        layers: MoE layers.
    """

    def __init__(self, layers: int) -> None:
        self._layers = layers
        self._before = self._now = (-1, 0)
        self._clear()

    def _clear(self) -> None:
        self._cells: list[tuple[int, int, int]] = []
        self._times: list[tuple[float, float]] = []
        self._ids: list[int] = []
        self._phases: list[int] = []
        self._messages: tuple[list[int], ...] = tuple([] for _ in OPS)
        self._bytes = [0 for _ in OPS]
        self._open = False

    def begin_step(self, step: int, phase: int) -> None:
        """The step that follows; phase 0 prefill (any prefill token), 1 decode."""
        self._before, self._now = self._now, (step, phase)
        self._open = False

    def add(
        self, layer: int, op: int, wait_seconds: float, transfer_seconds: float,
        bytes_sent: int, message_bytes: tuple[int, ...],
    ) -> None:  # fmt: skip
        """One all-to-all of the step before; the first that is told opens that step's row."""
        if not self._open:
            self._ids.append(self._before[0])
            self._phases.append(self._before[1])
            self._open = True
        self._cells.append((len(self._ids) - 1, op, layer))
        self._times.append((wait_seconds, transfer_seconds))
        self._bytes[op] += bytes_sent
        self._messages[op].extend(message_bytes)

    def drain(self) -> Exchanges:
        """All since the last drain, and start anew."""
        bounds = HISTOGRAM_BOUNDS["message"]
        drained = Exchanges(
            step_ids=np.array(self._ids, dtype=np.int64),
            step_phases=np.array(self._phases, dtype=np.int64),
            seconds=self._seconds(),
            payload_bytes=np.array(self._bytes, dtype=np.int64),
            message_cells=np.stack([cells_of(sizes, bounds) for sizes in self._messages]),
            message_bytes=(float(sum(self._messages[0])), float(sum(self._messages[1]))),
        )
        self._clear()
        return drained

    def _seconds(self) -> npt.NDArray[np.float32]:
        seconds = np.zeros((len(self._ids), len(OPS), len(PARTS), self._layers), dtype=np.float32)
        if self._cells:
            row, op, layer = np.array(self._cells).T
            np.add.at(seconds.transpose(0, 1, 3, 2), (row, op, layer), np.array(self._times))
        return seconds
