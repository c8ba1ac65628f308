"""What is kept how long.

Skipped are spans that someone pinned (the flight recorder), and minutes whose hour is not summed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from sqlalchemy import ColumnElement, CursorResult, delete, exists, func, or_, select
from sqlalchemy.orm import Session

from controlplane.history import partitions
from controlplane.history.models import (
    ConfigChange,
    EngineBoot,
    FrameGap,
    HourDue,
    IncidentPin,
    LayerSummary,
    LoadChunk,
    LoadRing,
    LoadRollup,
)
from controlplane.history.partitions import CHUNKS, Partition
from controlplane.history.tiers import HOUR, MINUTE, Span
from controlplane.settings import HistorySettings

DAY = 86_400
ROLLUP_TIERS = (10, 60, 3600)


@dataclass(frozen=True, slots=True)
class Limits:
    """First second that is kept, by tier (CHUNKS: sealed chunks), and for events."""

    by_tier: dict[int, int]
    events: int


def limits(settings: HistorySettings, now: float) -> Limits:
    """What the settings mean at a moment."""
    ages = {
        CHUNKS: settings.chunk_hours * HOUR,
        10: settings.rollup_10s_hours * HOUR,
        60: settings.rollup_1m_days * DAY,
        3600: settings.rollup_1h_days * DAY,
    }
    cut = {tier: int(now - age) for tier, age in ages.items()}
    return Limits(cut, min(cut.values()))


def expire(session: Session, engine_id: str, limit: Limits, ring_frames: int) -> int:
    """Delete one engine's rows that are over, by its key ranges; gives how many were deleted."""
    over: list[tuple[Any, list[ColumnElement[bool]]]] = [
        (LoadChunk, [LoadChunk.t0 < limit.by_tier[CHUNKS], ~_pinned(LoadChunk, 60)]),
        (LoadRing, [LoadRing.slot >= ring_frames, LoadRing.sealed.is_(True)]),
        # By its gaps the ring tells a late frame from one that came before: a boot that is still
        # heard keeps them, whatever the engine's clock said.
        (FrameGap, [FrameGap.ended < limit.events, ~_is_heard(FrameGap, limit.events)]),
        (ConfigChange, [ConfigChange.at < limit.events]),
    ]
    layers = session.scalar(
        select(func.max(LayerSummary.layer)).where(LayerSummary.engine_id == engine_id)
    )
    for tier in ROLLUP_TIERS:
        cut = limit.by_tier[tier]
        rollups = [LoadRollup.tier == tier, LoadRollup.t0 < cut, ~_pinned(LoadRollup, tier)]
        over.append((LoadRollup, [*rollups, ~_awaited()] if tier == MINUTE else rollups))
        if layers is not None and _has_older(session, engine_id, layers, tier, cut):
            over += [
                (
                    LayerSummary,
                    [
                        LayerSummary.layer == layer,
                        LayerSummary.tier == tier,
                        LayerSummary.t0 < cut,
                        ~_pinned(LayerSummary, tier),
                    ],
                )
                for layer in range(layers + 1)
            ]
    gone = 0
    for table, conditions in over:
        statement = delete(table).where(table.engine_id == engine_id, *conditions)
        gone += cast("CursorResult[Any]", session.execute(statement)).rowcount
    return gone


def _has_older(session: Session, engine_id: str, layer: int, tier: int, cut: int) -> bool:
    """Whether a layer has rows before `cut`: all layers of an interval are written together."""
    oldest = session.scalar(
        select(func.min(LayerSummary.t0)).where(
            LayerSummary.engine_id == engine_id, LayerSummary.layer == layer,
            LayerSummary.tier == tier,
        )
    )  # fmt: skip
    return oldest is not None and oldest < cut


def droppable(session: Session, limit: Limits) -> list[Partition]:
    """PostgreSQL partitions that are over as a whole, touch no pin, and no hour still needs."""
    pins = session.execute(select(IncidentPin.started, IncidentPin.ended)).all()
    due = session.scalars(select(HourDue.t0).distinct()).all()
    return [
        partition
        for table in partitions.TABLES
        for partition in partitions.existing(session, table)
        if partition.end <= limit.by_tier[partition.tier]
        and not any(start < partition.end and end > partition.start for start, end in pins)
        and not (
            (partition.table, partition.tier) == ("load_rollup", MINUTE)
            and any(partition.start <= t0 < partition.end for t0 in due)
        )
    ]


def _is_heard(table: Any, since: float) -> ColumnElement[bool]:
    """Whether a frame of the row's boot was received since then."""
    return exists().where(
        EngineBoot.engine_id == table.engine_id,
        EngineBoot.boot_id == table.boot_id,
        EngineBoot.last_received >= since,
    )


def is_pinned(session: Session, engine_ids: Sequence[str], span: Span) -> bool:
    """Whether a pin covers the whole span, for each of the engines: everything of it is kept."""
    pinned = session.scalars(
        select(IncidentPin.engine_id).where(
            IncidentPin.started <= span.start, IncidentPin.ended >= span.end
        )
    ).all()
    return None in pinned or set(engine_ids) <= set(pinned)


def _awaited() -> ColumnElement[bool]:
    """Minutes whose hour is not summed yet."""
    return exists().where(
        HourDue.engine_id == LoadRollup.engine_id,
        HourDue.t0 == LoadRollup.t0 - LoadRollup.t0 % HOUR,
    )


def _pinned(table: Any, span: int) -> ColumnElement[bool]:
    return exists().where(
        or_(IncidentPin.engine_id.is_(None), IncidentPin.engine_id == table.engine_id),
        IncidentPin.started < table.t0 + span,
        IncidentPin.ended > table.t0,
    )
