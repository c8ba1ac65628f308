"""When each phase of an MoE layer ran, on the host, for the spans of sampled steps.

A phase ends where the next one begins, so one mark a phase is all that a layer leaves:
router → permute → dispatch → expert_gemm → combine. On a GPU a mark tells when the host had
launched the work, not when the device had done it.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

Mark = Callable[[str], None]
PHASE_NAMES = ("router", "permute", "dispatch", "expert_gemm", "combine")


@dataclass(frozen=True, slots=True)
class PhaseSpan:
    """One phase of one layer; nanoseconds of the machine's monotonic clock."""

    layer: int
    name: str
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class StepPhases:
    """A step's phases on one rank, in order; picklable."""

    step: int
    phases: tuple[PhaseSpan, ...]


class LayerPhases(Protocol):
    """Where an MoE layer says which phase has just ended."""

    def marker(self, layer: int) -> Mark:
        """Begin the layer's first phase now; every call of the mark ends one and names it."""
        ...


class NoPhases:
    """Times nothing."""

    def marker(self, layer: int) -> Mark:  # noqa: ARG002
        """A mark that does nothing."""
        return unmarked


NO_PHASES = NoPhases()


def unmarked(name: str) -> None:
    """The mark of a step that is not timed."""


class PhaseTimer:
    """Times the phases of one rank's sampled steps.

    Args:
        clock: nanoseconds, monotonic, the same for every process of the machine.
    """

    def __init__(self, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._clock = clock
        self._phases: list[PhaseSpan] = []

    def marker(self, layer: int) -> Mark:
        """See `LayerPhases`."""
        started = self._clock()

        def mark(name: str) -> None:
            nonlocal started
            now = self._clock()
            self._phases.append(PhaseSpan(layer, name, started, now))
            started = now

        return mark

    def take(self, step: int) -> StepPhases:
        """What was marked since the last take, as the phases of `step`."""
        taken = StepPhases(step, tuple(self._phases))
        self._phases = []
        return taken
