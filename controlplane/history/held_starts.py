"""When frames that the ring holds started: what a frame that comes again is compared with."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, bindparam, select

from contract.frame import FrameHeader
from controlplane.history.models import LoadRing

_RING = LoadRing.__table__.c
_STARTS = select(_RING.sequence, _RING.started).where(
    _RING.engine_id == bindparam("engine"), _RING.boot_id == bindparam("boot")
)


class HeldStarts:
    """Starts by boot and sequence, for one batch; nearly no frame comes again.

    A boot is read when one of its frames does.

    Args:
        rows: what the batch adds to the ring; it may grow.
    """

    def __init__(self, connection: Connection, rows: Sequence[dict[str, Any]]) -> None:
        self._connection = connection
        self._rows = rows
        self._rows_seen = 0
        self._starts: dict[tuple[str, str], dict[int, float]] = {}

    def start_of(self, header: FrameHeader) -> float | None:
        """Start of the frame that has this one's place, unix seconds; None when it is gone."""
        for row in self._rows[self._rows_seen :]:
            self._of(row["engine_id"], row["boot_id"])[row["sequence"]] = row["started"]
        self._rows_seen = len(self._rows)
        return self._of(header.engine_id, header.boot_id).get(header.sequence)

    def _of(self, engine_id: str, boot_id: str) -> dict[int, float]:
        held = self._starts.get((engine_id, boot_id))
        if held is None:
            found = self._connection.execute(_STARTS, {"engine": engine_id, "boot": boot_id})
            held = {row.sequence: row.started for row in found}
            self._starts[engine_id, boot_id] = held
        return held
