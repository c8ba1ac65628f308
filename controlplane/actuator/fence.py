"""The mandate of the leader, checked in every write and carried by every push.

A write checks in its own transaction that its epoch is still the newest; an engine refuses a push
of an epoch below the newest it has seen. Whoever was paused too long fails at one of the two.
"""

from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from controlplane.actuator.models import LeaderLease
from controlplane.errors import FencedError

LEASE_NAME = "leader"


@dataclass(frozen=True, slots=True)
class Fence:
    """A held lease.

    Attributes:
        holder, epoch: as in the lease row.
        still_leads: whether the last renewal is young enough on the monotonic clock.
    """

    holder: str
    epoch: int
    still_leads: Callable[[], bool]

    def check(self, session: Session) -> None:
        """Raise FencedError unless the lease row still carries this epoch; locks the row.

        The lock (SQLite: the write transaction itself) keeps a successor from taking over between
        this check and the commit.
        """
        row = session.execute(
            select(LeaderLease.holder, LeaderLease.epoch)
            .where(LeaderLease.name == LEASE_NAME)
            .with_for_update(read=True)
        ).one_or_none()
        if row is None or (row.holder, row.epoch) != (self.holder, self.epoch):
            newer = "nobody" if row is None else f"{row.holder} with epoch {row.epoch}"
            raise FencedError(
                f"{self.holder} with epoch {self.epoch} no longer leads: {newer} does",
                field="epoch", value=self.epoch, bound=None if row is None else row.epoch,
            )  # fmt: skip

    def check_clock(self) -> None:
        """Raise FencedError when the last renewal is too old to act on; before every push."""
        if not self.still_leads():
            raise FencedError(
                f"{self.holder} could not renew its lease in time: it stops acting",
                field="epoch", value=self.epoch,
            )  # fmt: skip
