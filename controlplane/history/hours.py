"""Hourly rollups: sums of an hour's minutes, made when the hour is over, and again when it grew."""

import logging

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from controlplane.db.upsert import execute_many
from controlplane.history.chunk_codec import CorruptChunkError
from controlplane.history.layer_summary import summarise
from controlplane.history.models import LoadRollup
from controlplane.history.sealing import MINUTE, UPSERT_ROLLUP, UPSERT_SUMMARY, rollup_row
from controlplane.history.summing import WindowSum
from controlplane.history.window import EngineWindow
from controlplane.history.window_codec import decode_window

logger = logging.getLogger(__name__)

HOUR = 3600
SETTLE_SECONDS = 3 * MINUTE
"""How long after its end an hour waits for its last minutes to be sealed."""


def due_hours(session: Session, *, now: float, look_back_seconds: float) -> list[tuple[str, int]]:
    """Engines and hours whose hourly sum is missing, or lacks frames that its minutes have."""
    since = int((now - look_back_seconds) // HOUR) * HOUR
    hour = (LoadRollup.t0 - LoadRollup.t0 % HOUR).label("hour")
    minutes = session.execute(
        select(LoadRollup.engine_id, hour, func.sum(LoadRollup.frames))
        .where(LoadRollup.tier == MINUTE, LoadRollup.t0 >= since)
        .group_by(LoadRollup.engine_id, hour)
    ).all()
    made = {
        (engine_id, t0): frames
        for engine_id, t0, frames in session.execute(
            select(LoadRollup.engine_id, LoadRollup.t0, LoadRollup.frames).where(
                LoadRollup.tier == HOUR, LoadRollup.t0 >= since
            )
        )
    }
    return sorted(
        (engine_id, t0)
        for engine_id, t0, frames in minutes
        if t0 + HOUR + SETTLE_SECONDS <= now and made.get((engine_id, t0)) != frames
    )


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


def store_hour(session: Session, window: EngineWindow) -> None:
    """Write an hour's sum with its layer rows."""
    execute_many(session, UPSERT_ROLLUP, [rollup_row(window, HOUR)])
    summaries = summarise(window, HOUR, int(window.start))
    if summaries:
        execute_many(session, UPSERT_SUMMARY, summaries)


def tables_of(t0: int) -> list[tuple[str, int, int]]:
    """Where the rows of an hour go: (table, tier, t0)."""
    return [("load_rollup", HOUR, t0), ("layer_summary", HOUR, t0)]
