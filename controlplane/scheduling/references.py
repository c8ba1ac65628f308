"""Load references: expert shares while a bias was good, captured when one is marked good.

A reference is taken on an operator's mark, or when an engine names a new last known good; never on
its own during degradation.
"""

import threading
from collections.abc import Callable

from sqlalchemy import select
from sqlalchemy.orm import Session

from controlplane.actuator.models import LoadReferenceRecord
from controlplane.clock import Clock
from controlplane.db.database import Database
from controlplane.detectors.reference import LoadReference, build_reference
from controlplane.history.history import History
from controlplane.history.window import EngineWindow
from controlplane.scheduling.windows import AlignedWindows

MAX_WINDOWS = 60
"""The newest windows that a reference is summed from at most: ten minutes at 10 s."""
MIN_WINDOWS = 3
ENOUGH_WINDOWS = 12
"""An engine's own new last known good is captured once this many windows have run under it."""


class LoadReferences:
    """References of all engines, read once and kept until replaced."""

    def __init__(
        self, database: Database, clock: Clock, history: History, windows: AlignedWindows
    ) -> None:
        self._database = database
        self._clock = clock
        self._history = history
        self._windows = windows
        self._lock = threading.Lock()
        self._kept: dict[str, tuple[float, LoadReference]] = {}

    def of(self, engine_id: str) -> LoadReference | None:
        """The reference in force; None when none was captured."""
        record = LoadReferenceRecord
        with self._database.read() as session:
            captured_at = session.scalar(
                select(record.captured_at).where(record.engine_id == engine_id)
            )
            if captured_at is None:
                return None
            with self._lock:
                kept = self._kept.get(engine_id)
            if kept is not None and kept[0] == captured_at:
                return kept[1]  # the payload is long: it is read when it is new
            row = session.get_one(record, engine_id)
            reference = LoadReference.from_bytes(row.payload)
        with self._lock:
            self._kept[engine_id] = (captured_at, reference)
        return reference

    def capture(
        self, engine_id: str, bias_hash: str | None, *, author: str, seconds: float,
        enough: int = MIN_WINDOWS, check: Callable[[Session], None] | None = None,
    ) -> int:  # fmt: skip
        """Replace the reference by the recent windows under `bias_hash`; gives how many.

        Nothing is replaced below `enough` windows: 0 is given. `check` is the leader's fence.
        """
        windows = self._windows_under(engine_id, bias_hash, seconds)
        if len(windows) < enough:
            return 0
        reference = build_reference(windows)
        if reference is None:
            return 0
        payload = reference.to_bytes()
        with self._database.write() as session:
            if check is not None:
                check(session)
            row = session.get(LoadReferenceRecord, engine_id) or LoadReferenceRecord(
                engine_id=engine_id
            )
            row.bias_hash, row.captured_at, row.author = bias_hash, self._clock.now(), author
            row.windows, row.payload = reference.windows, payload
            session.add(row)
        return reference.windows

    def lacks(self, engine_id: str, bias_hash: str | None) -> bool:
        """Whether the last known good has no reference of its own."""
        with self._database.read() as session:
            found = session.execute(
                select(LoadReferenceRecord.bias_hash).where(
                    LoadReferenceRecord.engine_id == engine_id
                )
            ).first()
            return found is None or found.bias_hash != bias_hash

    def _windows_under(
        self, engine_id: str, bias_hash: str | None, seconds: float
    ) -> list[EngineWindow]:
        newest = self._history.newest(engine_id)
        if newest is None:
            return []
        windows = self._windows.last(
            engine_id, ended=newest.ended, seconds=seconds, count=MAX_WINDOWS, full=MAX_WINDOWS
        )
        return [w for w in windows if set(w.live_biases) <= {bias_hash} and w.total_tokens > 0]
