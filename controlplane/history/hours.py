"""Hourly rollups: sums of an hour's minutes, made when the hour is over, and again when it grew.

Sealing a minute marks its hour as due, in the same transaction and whatever the minute's age. An
hour stays due until a sum of all its minutes is stored; until then its minutes are not deleted, and
answers are made of them. Where retention has taken minutes of an hour that was made, late frames
are added to the hour itself.
"""

import logging
from collections.abc import Collection
from typing import NamedTuple

from sqlalchemy import delete, func, select, text
from sqlalchemy.orm import Session

from contract.frame_stack import Stack
from controlplane.history.chunk_codec import CorruptChunkError
from controlplane.history.models import HourDue, LoadRollup
from controlplane.history.rollup_rows import (
    frames_held,
    payload_held,
    store_summaries,
    store_windows,
)
from controlplane.history.summing import WindowSum
from controlplane.history.tiers import HOUR, MINUTE, Span
from controlplane.history.window import EngineWindow
from controlplane.history.window_codec import decode_window

logger = logging.getLogger(__name__)

SETTLE_SECONDS = 3 * MINUTE
"""How long after its end an hour waits for its last minutes to be sealed."""
_MARK = text(
    "INSERT INTO hour_due (engine_id, t0, marks) VALUES (:engine_id, :t0, 1)"
    " ON CONFLICT (engine_id, t0) DO UPDATE SET marks = hour_due.marks + 1"
)


class DueHour(NamedTuple):
    """An hour whose sum is missing or lacks frames; `marks` counts the minutes sealed since."""

    engine_id: str
    t0: int
    marks: int


def note(session: Session, engine_id: str, minute: int, sealed: Stack) -> None:
    """See to the hour of frames that were sealed just now, and are in their minute's sum."""
    t0 = minute - minute % HOUR
    if _lacks_minutes(session, engine_id, t0, sealed) and _grow(session, engine_id, t0, sealed):
        return
    session.execute(_MARK, {"engine_id": engine_id, "t0": t0})


def due_hours(session: Session, *, now: float) -> list[DueHour]:
    """Hours to sum now, oldest first."""
    rows = session.execute(
        select(HourDue.engine_id, HourDue.t0, HourDue.marks)
        .where(HourDue.t0 <= now - HOUR - SETTLE_SECONDS)
        .order_by(HourDue.t0, HourDue.engine_id)
    )
    return [DueHour(*row) for row in rows]


def due_within(
    session: Session, engine_ids: Collection[str], span: Span
) -> set[tuple[str, int]]:  # fmt: skip
    """Engines and hours that touch the span and are due: their stored sum is not to be used."""
    rows = session.execute(
        select(HourDue.engine_id, HourDue.t0).where(
            HourDue.engine_id.in_(engine_ids), HourDue.t0 > span.start - HOUR, HourDue.t0 < span.end
        )
    )
    return {(engine_id, t0) for engine_id, t0 in rows}


def sum_hour(session: Session, engine_id: str, t0: int) -> EngineWindow | None:
    """The sum of an hour's minutes; None when there is none. A damaged minute is left out."""
    payloads = session.execute(
        select(LoadRollup.t0, LoadRollup.payload)
        .where(
            LoadRollup.engine_id == engine_id,
            LoadRollup.tier == MINUTE,
            LoadRollup.t0 >= t0,
            LoadRollup.t0 < t0 + HOUR,
        )
        .order_by(LoadRollup.t0)
    )
    total = WindowSum()
    for minute, payload in payloads:
        try:
            total.merge(decode_window(payload))
        except CorruptChunkError:
            logger.exception("rollup %s/%s is left out of its hour", engine_id, minute)
    return total.window(engine_id, t0, t0 + HOUR)


def settle(session: Session, due: DueHour, hour: EngineWindow | None) -> None:
    """Write an hour's sum with its layer rows; it is not due any longer.

    It stays due when a minute was sealed meanwhile. A sum of fewer frames than the one that is
    stored replaces nothing: minutes are gone, or damaged.
    """
    held = frames_held(session, due.engine_id, HOUR, due.t0)
    if hour is not None and hour.frames >= (held or 0):
        _store(session, hour)
    elif hour is not None:
        logger.warning(
            "hour %s/%s keeps its sum of %s frames: its minutes have %s", due.engine_id, due.t0,
            held, hour.frames,
        )  # fmt: skip
    session.execute(
        delete(HourDue).where(
            HourDue.engine_id == due.engine_id, HourDue.t0 == due.t0, HourDue.marks == due.marks
        )
    )


def tables_of(t0: int) -> list[tuple[str, int, int]]:
    """Where the rows of an hour go: (table, tier, t0)."""
    return [("load_rollup", HOUR, t0), ("layer_summary", HOUR, t0)]


def _lacks_minutes(session: Session, engine_id: str, t0: int, sealed: Stack) -> bool:
    """Whether an hour was summed of minutes that are not there any longer."""
    held = frames_held(session, engine_id, HOUR, t0)
    if held is None or session.get(HourDue, (engine_id, t0)) is not None:
        return False
    there = session.scalar(
        select(func.sum(LoadRollup.frames)).where(
            LoadRollup.engine_id == engine_id, LoadRollup.tier == MINUTE, LoadRollup.t0 >= t0,
            LoadRollup.t0 < t0 + HOUR,
        )
    )  # fmt: skip
    return int(there or 0) - len(sealed.headers) < held


def _grow(session: Session, engine_id: str, t0: int, sealed: Stack) -> bool:
    """Add frames to a stored hour; False where it is damaged."""
    payload = payload_held(session, engine_id, HOUR, t0)
    total = WindowSum()
    try:
        total.merge(decode_window(payload or b""))
    except CorruptChunkError:
        logger.exception("hour %s/%s is damaged", engine_id, t0)
        return False
    total.add_stack(sealed)
    hour = total.window(engine_id, t0, t0 + HOUR)
    if hour is not None:
        _store(session, hour)
    return True


def _store(session: Session, hour: EngineWindow) -> None:
    store_windows(session, [hour], HOUR)
    store_summaries(session, hour, HOUR)
