"""Keeps the lease, and runs the jobs while this process holds it."""

import logging
import threading
from collections.abc import Callable

from controlplane.actuator.fence import Fence
from controlplane.metrics import Instruments
from controlplane.scheduling.jobs import Jobs
from controlplane.scheduling.lease import RENEW_SECONDS, Lease

LOGGER = logging.getLogger(__name__)


class Leader:
    """A thread that tends the lease; jobs start when it is gained and stop when it is lost."""

    def __init__(
        self,
        lease: Lease,
        instruments: Instruments,
        make_jobs: Callable[[Callable[[], Fence | None], Callable[[], None]], Jobs],
    ) -> None:
        self._lease = lease
        self._leads = instruments.gauge("trimtab_leader")
        self._jobs = make_jobs(lease.fence, self.wake)
        self._wake = threading.Event()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="leader", daemon=True)

    @property
    def lease(self) -> Lease:
        """This process's claim."""
        return self._lease

    def start(self) -> None:
        """Begin to claim."""
        self._thread.start()

    def stop(self) -> None:
        """Finish what runs, then let a successor in."""
        self._stopped.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()
        self._jobs.stop(wait=True)
        self._lease.resign()
        self._leads.set(0)

    def wake(self) -> None:
        """Look at the lease now: a job has met a newer epoch."""
        self._wake.set()

    def _run(self) -> None:
        while not self._stopped.is_set():
            self._wake.clear()
            if self._lease.tend():
                self._leads.set(1)
                self._jobs.start()
            else:
                self._leads.set(0)
                self._jobs.stop(wait=False)
            self._wake.wait(RENEW_SECONDS)
