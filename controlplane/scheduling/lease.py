"""The leader's lease: one row, taken and renewed by conditional updates on the database's clock.

A lease lives 15 s and is renewed every 5 s. Its holder stops acting 10 s after the last renewal on
its own monotonic clock, so a successor (15 s on the database's clock) never overlaps with a holder
whose clock runs; a holder that was paused meets the epoch, in every write and at every engine.
"""

import threading
from collections.abc import Callable

from sqlalchemy import ColumnElement, Double, cast, func, literal_column, update
from sqlalchemy.exc import IntegrityError

from controlplane.actuator.fence import LEASE_NAME, Fence
from controlplane.actuator.models import LeaderLease
from controlplane.clock import Clock
from controlplane.db.database import Database
from controlplane.errors import StorageError

TTL_SECONDS = 15.0
RENEW_SECONDS = 5.0
ACT_SECONDS = 10.0


def database_now(database: Database) -> ColumnElement[float]:
    """Unix seconds on the database's clock, as SQL."""
    if database.is_sqlite:
        return literal_column("((julianday('now') - 2440587.5) * 86400.0)", Double())
    return cast(func.extract("epoch", func.clock_timestamp()), Double())


class Lease:
    """This process's claim to lead. Safe to use from any thread."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        holder: str,
        now: Callable[[Database], ColumnElement[float]] = database_now,
    ) -> None:
        self._database = database
        self._clock = clock
        self._holder = holder
        self._now = now
        self._lock = threading.Lock()
        self._epoch: int | None = None
        self._renewed_at = float("-inf")

    @property
    def holder(self) -> str:
        """Name of this process in the lease row."""
        return self._holder

    def fence(self) -> Fence | None:
        """The mandate to act, or None while another process leads."""
        with self._lock:
            epoch = self._epoch
        if epoch is None or not self._still_leads(epoch):
            return None
        return Fence(self._holder, epoch, lambda: self._still_leads(epoch))

    def tend(self) -> bool:
        """Renew the lease, or take it when it is free; tells whether this process leads.

        A database that does not answer changes nothing: the mandate runs out by itself.
        """
        asked_at = self._clock.monotonic()
        try:
            epoch = self._renew() or self._take()
        except StorageError:
            return self.fence() is not None
        with self._lock:
            self._epoch = epoch
            if epoch is not None:
                self._renewed_at = asked_at
        return epoch is not None

    def resign(self) -> None:
        """Stop acting at once, and let a successor in without waiting."""
        with self._lock:
            epoch, self._epoch = self._epoch, None
        if epoch is None:
            return
        with self._database.write() as session:
            session.execute(
                update(LeaderLease)
                .where(
                    LeaderLease.name == LEASE_NAME,
                    LeaderLease.holder == self._holder,
                    LeaderLease.epoch == epoch,
                )
                .values(expires_at=0.0)
            )

    def outrank(self, epoch: int) -> None:
        """Take an epoch above one that an engine has seen, if this process still leads.

        Engines remember epochs longer than a database that was lost or restored from a backup.
        """
        with self._lock:
            mine = self._epoch
        if mine is None or mine > epoch:
            return
        with self._database.write() as session:
            raised = session.execute(
                update(LeaderLease)
                .where(
                    LeaderLease.name == LEASE_NAME,
                    LeaderLease.holder == self._holder,
                    LeaderLease.epoch == mine,
                )
                .values(epoch=epoch + 1)
                .returning(LeaderLease.epoch)
                .execution_options(synchronize_session=False)
            ).scalar_one_or_none()
        with self._lock:
            if self._epoch == mine:
                self._epoch = raised

    def _still_leads(self, epoch: int) -> bool:
        with self._lock:
            fresh = self._clock.monotonic() - self._renewed_at <= ACT_SECONDS
            return fresh and self._epoch == epoch

    def _renew(self) -> int | None:
        with self._lock:
            epoch = self._epoch
        if epoch is None:
            return None
        now = self._now(self._database)
        with self._database.write() as session:
            return session.execute(
                update(LeaderLease)
                .where(
                    LeaderLease.name == LEASE_NAME,
                    LeaderLease.holder == self._holder,
                    LeaderLease.epoch == epoch,
                )
                .values(expires_at=now + TTL_SECONDS)
                .returning(LeaderLease.epoch)
                .execution_options(synchronize_session=False)
            ).scalar_one_or_none()

    def _take(self) -> int | None:
        now = self._now(self._database)
        with self._database.write() as session:
            taken = session.execute(
                update(LeaderLease)
                .where(LeaderLease.name == LEASE_NAME, LeaderLease.expires_at < now)
                .values(
                    holder=self._holder, epoch=LeaderLease.epoch + 1, expires_at=now + TTL_SECONDS
                )
                .returning(LeaderLease.epoch)
                .execution_options(synchronize_session=False)
            ).scalar_one_or_none()
            exists = taken is not None or session.get(LeaderLease, LEASE_NAME) is not None
        return taken if exists else self._found()

    def _found(self) -> int | None:
        """The very first lease of a database."""
        row = LeaderLease(name=LEASE_NAME, holder=self._holder, epoch=1, expires_at=0.0)
        try:
            with self._database.write() as session:
                session.add(row)
        except IntegrityError:
            return None
        with self._lock:
            self._epoch = 1
        return self._renew()
