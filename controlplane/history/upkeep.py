"""What keeps the history in shape: sealing, hourly sums, retention. Each is safe to run twice."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import select

from controlplane.allocator import give_back_free
from controlplane.errors import ConflictError, StorageError
from controlplane.history import hours, partitions, retention, sealing
from controlplane.history.history import History
from controlplane.history.models import EngineBoot
from controlplane.history.partitions import Partitions
from controlplane.history.sealing import Due

logger = logging.getLogger(__name__)

SEAL, ROLL_HOURS, RETAIN = "history.seal", "history.roll_hours", "history.retain"
MAX_TOLD = 10_000


class Job(NamedTuple):
    """Work to be called at an interval by whoever schedules; the name labels its metrics."""

    name: str
    run: Callable[[], object]
    interval_seconds: float


@dataclass(frozen=True, slots=True)
class SealReport:
    """What one pass sealed."""

    minutes: int = 0
    frames: int = 0


def _never() -> bool:
    return False


def _not_counted(_job: str) -> None:
    return None


class Upkeep:
    """The upkeep of one history. Run it in one process at a time (the leader).

    Args:
        history: what to keep in shape.
        is_catching_up: whether frames come in faster than they are stored. Sealing then waits,
            for as long as the ring has room: engines that send what they buffered are served first.
        count_failure: is called with the job's name for each piece of its work that raised.
    """

    def __init__(
        self,
        history: History,
        is_catching_up: Callable[[], bool] = _never,
        count_failure: Callable[[str], None] = _not_counted,
    ) -> None:
        self._history = history
        self._is_catching_up = is_catching_up
        self._count_failure = count_failure
        self._told: set[tuple[str, str, int]] = set()
        self._partitions = Partitions(history.database)

    def seal(self) -> SealReport:
        """Seal every minute that is due, oldest first, each in a transaction of its own.

        One that cannot be sealed stops no other.
        """
        settings = self._history.settings
        with self._history.database.read() as session:
            due = sealing.due_minutes(
                session, now=self._history.clock.now(),
                grace_seconds=settings.seal_grace_seconds, ring_frames=settings.ring_frames,
            )  # fmt: skip
        frames = minutes = 0
        for minute in due:
            if not minute.pressing and self._is_catching_up():
                continue
            with self._apart(SEAL, minute.engine_id, minute.t0):
                sealed = self._seal_minute(minute)
                frames += sealed
                minutes += 1 if sealed else 0
        if minutes:
            give_back_free()
        return SealReport(minutes, frames)

    def roll_hours(self) -> int:
        """Make the hourly sums that are due; gives how many."""
        database = self._history.database
        with database.read() as session:
            due = hours.due_hours(session, now=self._history.clock.now())
        made = 0
        for hour in due:
            with self._apart(ROLL_HOURS, hour.engine_id, hour.t0):
                with database.read() as session:
                    summed = hours.sum_hour(session, hour.engine_id, hour.t0)
                self._partitions.ensure(hours.tables_of(hour.t0))
                with database.write() as session:
                    hours.settle(session, hour, summed)
                made += 1
        return made

    def retain(self) -> int:
        """Delete what is over and not pinned; gives how many rows and partitions."""
        history = self._history
        limit = retention.limits(history.settings, history.clock.now())
        gone = 0
        if not history.database.is_sqlite:
            with history.database.write() as session:
                for partition in retention.droppable(session, limit):
                    partitions.drop(session, partition)
                    self._partitions.forget(partition)
                    gone += 1
        with history.database.read() as session:
            engines = session.scalars(select(EngineBoot.engine_id).distinct()).all()
        for engine_id in engines:
            with history.database.write() as session:
                gone += retention.expire(session, engine_id, limit, history.settings.ring_frames)
        return gone

    @contextmanager
    def _apart(self, job: str, engine_id: str, t0: int) -> Iterator[None]:
        """One engine's interval, whose failure is counted, told once, and left behind."""
        try:
            yield
        except StorageError:
            raise  # it is the database's: the others would fail like it
        except Exception:
            self._count_failure(job)
            if (job, engine_id, t0) not in self._told and len(self._told) < MAX_TOLD:
                self._told.add((job, engine_id, t0))
                logger.exception(
                    "%s fails for %s/%s; trimtab db check tells more", job, engine_id, t0
                )
        else:
            self._told.discard((job, engine_id, t0))

    def _seal_minute(self, minute: Due) -> int:
        database = self._history.database
        with database.read() as session:
            prepared = sealing.prepare(session, minute)
        self._partitions.ensure(sealing.tables_of(minute.t0))
        try:
            with database.write() as session:
                return sealing.store(session, minute, prepared)
        except ConflictError as error:
            logger.warning("not sealed here: %s", error.detail)
            return 0


def jobs(upkeep: Upkeep) -> list[Job]:
    """The history's jobs for the scheduler of the leader."""
    return [
        Job(SEAL, upkeep.seal, 10.0),
        Job(ROLL_HOURS, upkeep.roll_hours, 60.0),
        Job(RETAIN, upkeep.retain, 300.0),
    ]
