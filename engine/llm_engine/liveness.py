"""Which rank has failed, from what was heard and when. Pure: times come in as numbers.

A rank's process beats every half second from a thread of its own, so a rank that waits in a
collective for a stopped peer still beats: only the stopped one falls silent and is named.
"""

from dataclasses import dataclass, field


@dataclass(slots=True)
class Liveness:
    """When each rank was last heard, and since when a step runs.

    Attributes:
        num_ranks: ranks that must beat.
        watchdog_seconds: silence, or a step, that lasts longer is a failure.
    """

    num_ranks: int
    watchdog_seconds: float
    _heard: dict[int, float] = field(default_factory=dict)
    _step_since: float | None = None
    _pending: set[int] = field(default_factory=set)

    def heard(self, rank: int, now: float) -> None:
        """The rank said something."""
        self._heard[rank] = now

    def step_started(self, now: float) -> None:
        """Every rank owes a result."""
        self._step_since = now
        self._pending = set(range(self.num_ranks))

    def step_finished(self, rank: int) -> None:
        """The rank gave its result."""
        self._pending.discard(rank)

    def step_clock_restarts(self, now: float) -> None:
        """Something else than the step kept the ranks busy until now."""
        if self._pending:
            self._step_since = now

    def seconds_left(self, now: float) -> float:
        """Time until `failure` could first say something new."""
        deadlines = [heard + self.watchdog_seconds for heard in self._heard.values()]
        if self._pending and self._step_since is not None:
            deadlines.append(self._step_since + self.watchdog_seconds)
        return max(0.0, min(deadlines) - now) if deadlines else self.watchdog_seconds

    def failure(self, now: float, *, step_clock: bool = True) -> tuple[int, str] | None:
        """The failed rank and a sentence, or None while all is well.

        Args:
            now: the monotonic time, after everything that had arrived was heard.
            step_clock: False while a question keeps the ranks from their step.
        """
        rank, heard = min(self._heard.items(), key=lambda item: item[1], default=(0, now))
        if now - heard >= self.watchdog_seconds:
            return rank, f"rank {rank} has not answered for {now - heard:.1f} s"
        if step_clock and self._pending and self._step_since is not None:
            late = now - self._step_since
            if late >= self.watchdog_seconds:
                rank = min(self._pending)
                return rank, f"rank {rank} has not finished its step for {late:.1f} s"
        return None
