"""Times the phases of a step: where the time went, for spans and for the step-time histogram."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class PhaseTimer:
    """Adds up seconds by phase name over one step; on the host, so a GPU phase is its launch.

    Args:
        clock: monotonic seconds.
        synchronize: called at both ends of a phase where exact device time is wanted
            (`torch.cuda.synchronize` on sampled steps); None for none.
    """

    def __init__(
        self, clock: Callable[[], float] = time.perf_counter,
        synchronize: Callable[[], None] | None = None,
    ) -> None:  # fmt: skip
        self._clock = clock
        self._synchronize = synchronize
        self._seconds: dict[str, float] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Add the time of the block to `name`, also when it raises."""
        start = self._now()
        try:
            yield
        finally:
            self.add(name, self._now() - start)

    def add(self, name: str, seconds: float) -> None:
        """Add a duration that was measured elsewhere."""
        self._seconds[name] = self._seconds.get(name, 0.0) + seconds

    def take(self) -> dict[str, float]:
        """Seconds by phase since the last take, in order of first use."""
        taken, self._seconds = self._seconds, {}
        return taken

    def _now(self) -> float:
        if self._synchronize is not None:
            self._synchronize()
        return self._clock()
