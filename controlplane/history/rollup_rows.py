"""Writing sums: a window as a row of `load_rollup`, and its layers as rows of `layer_summary`."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from controlplane.db.upsert import execute_many, upsert
from controlplane.history.layer_summary import summarise
from controlplane.history.models import LayerSummary, LoadRollup
from controlplane.history.window import EngineWindow
from controlplane.history.window_codec import encode_window

SUMMARY_COLUMNS = tuple(column.name for column in LayerSummary.__table__.columns)
_UPSERT_SUMMARY = upsert("layer_summary", SUMMARY_COLUMNS, ("engine_id", "layer", "tier", "t0"))
_UPSERT_ROLLUP = upsert(
    "load_rollup", ("engine_id", "tier", "t0", "frames", "payload"), ("engine_id", "tier", "t0")
)


def store_windows(session: Session, windows: Sequence[EngineWindow], tier: int) -> None:
    """Write windows that are one interval of `tier` seconds each."""
    if windows:
        execute_many(session, _UPSERT_ROLLUP, [_row(window, tier) for window in windows])


def store_summaries(session: Session, window: EngineWindow, tier: int) -> None:
    """Write the layers of a window that is one interval of `tier` seconds."""
    summaries = summarise(window, tier, int(window.start))
    if summaries:
        execute_many(session, _UPSERT_SUMMARY, summaries)


def frames_held(session: Session, engine_id: str, tier: int, t0: int) -> int | None:
    """Frames of a stored sum; None where there is none."""
    return session.scalar(
        select(LoadRollup.frames).where(
            LoadRollup.engine_id == engine_id, LoadRollup.tier == tier, LoadRollup.t0 == t0
        )
    )


def payload_held(session: Session, engine_id: str, tier: int, t0: int) -> bytes | None:
    """A stored sum as it is stored; None where there is none."""
    return session.scalar(
        select(LoadRollup.payload).where(
            LoadRollup.engine_id == engine_id, LoadRollup.tier == tier, LoadRollup.t0 == t0
        )
    )


def _row(window: EngineWindow, tier: int) -> dict[str, Any]:
    return {
        "engine_id": window.engine_id, "tier": tier, "t0": int(window.start),
        "frames": window.frames, "payload": encode_window(window),
    }  # fmt: skip
