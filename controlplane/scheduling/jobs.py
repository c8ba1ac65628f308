"""Scheduled jobs: APScheduler in the leader only, memory store, one instance each, measured."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol

from apscheduler.events import EVENT_JOB_ERROR, JobExecutionEvent
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.jobstores.memory import MemoryJobStore
from apscheduler.schedulers.background import BackgroundScheduler

from controlplane.actuator.fence import Fence
from controlplane.clock import Clock
from controlplane.errors import FencedError, StorageError
from controlplane.metrics import Instruments

LOGGER = logging.getLogger(__name__)
MISFIRE_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Job:
    """Something that the leader does every so often.

    Attributes:
        name: of the job, in metrics and logs.
        seconds: from start to start.
        run: gets the leader's mandate; raises FencedError when it has lost it.
    """

    name: str
    seconds: float
    run: Callable[[Fence], None]


class Chore(Protocol):
    """Work that another package wants done now and then, whoever does it."""

    @property
    def name(self) -> str:
        """Of the job."""
        ...

    @property
    def run(self) -> Callable[[], object]:
        """Safe to run twice."""
        ...

    @property
    def interval_seconds(self) -> float:
        """From start to start."""
        ...


def leader_jobs(chores: Sequence[Chore]) -> tuple[Job, ...]:
    """Chores as jobs of the leader."""

    def job(chore: Chore) -> Job:
        def run(_fence: Fence) -> None:
            chore.run()

        return Job(chore.name, chore.interval_seconds, run)

    return tuple(job(chore) for chore in chores)


class Jobs:
    """Runs jobs while this process leads."""

    def __init__(
        self,
        jobs: Sequence[Job],
        clock: Clock,
        instruments: Instruments,
        mandate: Callable[[], Fence | None],
        on_fenced: Callable[[], None],
    ) -> None:
        self._jobs = tuple(jobs)
        self._clock = clock
        self._mandate = mandate
        self._on_fenced = on_fenced
        self._seconds = instruments.histogram("trimtab_job_seconds")
        self._failures = instruments.counter("trimtab_job_failures_total")
        for job in self._jobs:
            self._failures.labels(job.name)  # a series from the start: the first failure counts
        self._scheduler: BackgroundScheduler | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Every job's name."""
        return tuple(job.name for job in self._jobs)

    def start(self) -> None:
        """Schedule every job; nothing when they run already."""
        if self._scheduler is not None:
            return
        scheduler = BackgroundScheduler(
            jobstores={"default": MemoryJobStore()},
            executors={"default": ThreadPoolExecutor(max_workers=max(2, len(self._jobs)))},
            job_defaults={
                "max_instances": 1, "coalesce": True, "misfire_grace_time": MISFIRE_SECONDS,
            },
            timezone="UTC",
        )  # fmt: skip
        scheduler.add_listener(self._on_error, EVENT_JOB_ERROR)
        # What is due every second is due at the same moment: a wake-up costs more than most jobs.
        first = datetime.now(UTC) + timedelta(seconds=1)  # noqa: TID251 - as the scheduler does
        for job in self._jobs:
            scheduler.add_job(
                self.run, "interval", args=[job], seconds=job.seconds, id=job.name, name=job.name,
                start_date=first, jitter=min(1.0, job.seconds / 20) if job.seconds > 1 else None,
            )  # fmt: skip
        scheduler.start()
        self._scheduler = scheduler

    def stop(self, *, wait: bool) -> None:
        """Run nothing any more; `wait` for what runs."""
        scheduler, self._scheduler = self._scheduler, None
        if scheduler is not None:
            scheduler.shutdown(wait=wait)

    def run(self, job: Job) -> None:
        """One run, measured; a lost mandate ends the leadership, not the process."""
        fence = self._mandate()
        if fence is None:
            return
        began = self._clock.monotonic()
        try:
            job.run(fence)
        except FencedError as error:
            LOGGER.warning("job %s: %s", job.name, error.detail)
            self._on_fenced()
        except StorageError as error:
            self._failures.labels(job.name).inc()
            LOGGER.warning("job %s: %s", job.name, error.detail)
        finally:
            self._seconds.labels(job.name).observe(self._clock.monotonic() - began)

    def _on_error(self, event: JobExecutionEvent) -> None:
        self._failures.labels(event.job_id).inc()
