"""What happened: config and bias timeline, gaps, boots, bias snapshots, pinned incidents."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Response
from sqlalchemy import select

from controlplane.db.base import LARGEST_INTEGER
from controlplane.history.api.dependencies import (
    End,
    Operator,
    Start,
    Stored,
    Viewer,
    known,
    span_of,
)
from controlplane.history.api.event_answers import (
    Boot,
    Change,
    GapList,
    MadePin,
    MissingFrames,
    NewPin,
    PinnedSpan,
    Snapshot,
    Timeline,
)
from controlplane.history.models import BiasSnapshot, ConfigChange, EngineBoot
from controlplane.history.observed import measured

router = APIRouter(tags=["events"])

Limit = Annotated[int, Query(ge=1, le=1000)]
Cursor = Annotated[
    int | None, Query(ge=0, le=LARGEST_INTEGER, description="`cursor` of the page before")
]


@router.get("/engines/{engine_id}/timeline")
def timeline(
    history: Stored,
    _viewer: Viewer,
    engine_id: str,
    start: Start = None,
    end: End = None,
    limit: Limit = 200,
    cursor: Cursor = None,
) -> Timeline:
    """Changes of config, bias, placement and freeze; none for an observe-only engine."""
    span = span_of(history, start, end)
    with history.database.read() as session:
        rows = session.scalars(
            select(ConfigChange)
            .where(
                ConfigChange.engine_id == known(history, engine_id),
                ConfigChange.at >= span.start,
                ConfigChange.at < span.end,
                ConfigChange.id > (cursor or 0),
            )
            .order_by(ConfigChange.id)
            .limit(limit + 1)
        ).all()
    changes = [Change.model_validate(row, from_attributes=True) for row in rows[:limit]]
    return Timeline(changes=changes, cursor=changes[-1].id if len(rows) > limit else None)


@router.get("/engines/{engine_id}/gaps")
def gaps(
    history: Stored, _viewer: Viewer, engine_id: str, start: Start = None, end: End = None
) -> GapList:
    """Frames known to be lost."""
    span = span_of(history, start, end)
    found = history.gaps(known(history, engine_id), span.start, span.end)
    return GapList(
        frames_missing=sum(gap.frames for gap in found),
        gaps=[MissingFrames.model_validate(gap, from_attributes=True) for gap in found],
    )


@router.get("/engines/{engine_id}/boots")
def boots(history: Stored, _viewer: Viewer, engine_id: str, limit: Limit = 50) -> list[Boot]:
    """Runs of an engine, newest first, with what they said of themselves."""
    with history.database.read() as session:
        rows = session.scalars(
            select(EngineBoot)
            .where(EngineBoot.engine_id == known(history, engine_id))
            .order_by(EngineBoot.last_ordinal.desc())
            .limit(limit)
        ).all()
    shown = [Boot.model_validate(row, from_attributes=True) for row in rows]
    return [boot.model_copy(update={"header": measured(boot.header)}) for boot in shown]


@router.get("/engines/{engine_id}/bias-snapshots")
def bias_snapshots(
    history: Stored, _viewer: Viewer, engine_id: str, limit: Limit = 200
) -> list[Snapshot]:
    """Router biases that this engine reported, newest first."""
    table = BiasSnapshot.__table__.c
    with history.database.read() as session:
        rows = session.execute(
            select(
                table.bias_hash, table.status, table.seen_at, table.info,
                table.payload.is_not(None).label("stored"),
            )
            .where(table.engine_id == engine_id)
            .order_by(table.seen_at.desc())
            .limit(limit)
        ).mappings().all()  # fmt: skip
    if not rows:
        known(history, engine_id)
    return [Snapshot.model_validate(dict(row)) for row in rows]


@router.get("/pins")
def list_pins(history: Stored, _viewer: Viewer) -> list[PinnedSpan]:
    """Pinned incidents, newest first."""
    return [PinnedSpan.model_validate(pin, from_attributes=True) for pin in history.pins()]


@router.post("/pins", status_code=201)
def add_pin(history: Stored, operator: Operator, body: NewPin) -> MadePin:
    """Keep a span of one engine, or of all, beyond retention."""
    if body.engine_id is not None:
        known(history, body.engine_id)
    pin_id = history.pin(
        body.engine_id, body.started, body.ended, reason=body.reason, actor=operator.name
    )
    return MadePin(id=pin_id)


@router.delete("/pins/{pin_id}", status_code=204)
def remove_pin(
    history: Stored, _operator: Operator, pin_id: Annotated[int, Path(ge=0, le=LARGEST_INTEGER)]
) -> Response:
    """Let retention have a span again."""
    history.unpin(pin_id)
    return Response(status_code=204)
