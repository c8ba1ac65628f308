"""Range partitions of the large tables on PostgreSQL; on SQLite there is nothing to do.

A partition is named `<table>_p<tier>_<first second>`; alembic ignores that name (`migrations/naming
.py`). Dropping one takes milliseconds and leaves no dead rows.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import text
from sqlalchemy.orm import Session

from controlplane.db.database import Database

DAY = 86_400
MONTH = 30 * DAY
CHUNKS = 0
"""The tier in the partition names of `load_chunk`, which has no tier of its own."""
SPAN = {CHUNKS: DAY, 10: DAY, 60: DAY, 3600: MONTH}
TABLES = {"load_chunk": (CHUNKS,), "load_rollup": (10, 60, 3600), "layer_summary": (60, 3600)}


@dataclass(frozen=True, slots=True)
class Partition:
    """One range [start, start + SPAN[tier]) of a table."""

    table: str
    tier: int
    start: int

    @property
    def name(self) -> str:
        """The partition's own table name."""
        return f"{self.table}_p{self.tier}_{self.start}"

    @property
    def end(self) -> int:
        """First second after it."""
        return self.start + SPAN[self.tier]


def partition_of(table: str, tier: int, t0: int) -> Partition:
    """The partition that holds `t0`."""
    return Partition(table, tier, t0 - t0 % SPAN[tier])


class Partitions:
    """Makes partitions before rows need them; remembers which it has seen to."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._seen: set[Partition] = set()

    def ensure(self, wanted: Iterable[tuple[str, int, int]]) -> None:
        """Make the partitions of (table, tier, t0) rows, in a transaction of their own."""
        if self._database.is_sqlite:
            return
        missing = {partition_of(*row) for row in wanted} - self._seen
        if not missing:
            return
        with self._database.write() as session:
            # One maker at a time: two replicas would deadlock on the parents' locks.
            session.execute(text("SELECT pg_advisory_xact_lock(7420)"))
            for partition in sorted(missing, key=lambda partition: partition.name):
                session.execute(text(_create(partition)))
        self._seen |= missing

    def forget(self, partition: Partition) -> None:
        """A partition was dropped."""
        self._seen.discard(partition)


def existing(session: Session, table: str) -> list[Partition]:
    """Partitions of a table, oldest first within a tier."""
    names = session.scalars(
        text(
            "SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid"
            " JOIN pg_class p ON p.oid = i.inhparent WHERE p.relname = :table"
        ),
        {"table": table},
    )
    found = []
    for name in names:
        tier, _, start = name.removeprefix(f"{table}_p").partition("_")
        found.append(Partition(table, int(tier), int(start)))
    return sorted(found, key=lambda partition: (partition.tier, partition.start))


def drop(session: Session, partition: Partition) -> None:
    """Drop a partition with its rows."""
    session.execute(text(f"DROP TABLE IF EXISTS {partition.name}"))


def _create(partition: Partition) -> str:
    key = "" if partition.tier == CHUNKS else f"{partition.tier}, "
    return (
        f"CREATE TABLE IF NOT EXISTS {partition.name} PARTITION OF {partition.table} "
        f"FOR VALUES FROM ({key}{partition.start}) TO ({key}{partition.end})"
    )
