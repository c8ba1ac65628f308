"""Series over time: one expert from rollups, layers from `layer_summary`; then their tails."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import func, select, tuple_
from sqlalchemy.orm import Session

from controlplane.errors import InvalidInputError
from controlplane.history.chunk_codec import CorruptChunkError
from controlplane.history.layer_summary import ARRAYS, summarise
from controlplane.history.models import LayerSummary, LoadRollup
from controlplane.history.tail import tail_of
from controlplane.history.tiers import Span, series_tier
from controlplane.history.window import EngineWindow
from controlplane.history.window_codec import decode_window

if TYPE_CHECKING:
    from controlplane.history.history import History

LAYER_COLUMNS = tuple(
    column.name
    for column in LayerSummary.__table__.columns
    if column.name not in ("engine_id", "layer", "tier", "t0")
)
LAYER_TIERS = (60, 3600)
_LOADS = ("assignments",)


@dataclass(frozen=True, slots=True)
class ExpertPoint:
    """One interval: its start in unix seconds, assignments of the expert, and of its layer."""

    t0: float
    assignments: int
    of_layer: int


@dataclass(frozen=True, slots=True)
class ExpertSeries:
    """Points of a tier (interval in seconds), oldest first.

    `until`, unix seconds: how far the series goes, pages that follow included; an interval that
    ends later is partial. None when nothing is there.
    """

    tier: int
    points: list[ExpertPoint]
    until: float | None


@dataclass(frozen=True, slots=True)
class LayerSeries:
    """Rows by layer and time; `until` as of an expert's series."""

    rows: list[dict[str, Any]]
    until: float | None


def expert_series(
    history: "History", engine_id: str, span: Span, *, layer: int, expert: int, limit: int
) -> ExpertSeries:
    """One expert over the whole intervals that touch the span; at most `limit` points.

    Raises:
        InvalidInputError: the model has no such layer or expert.
    """
    tier = series_tier(span)
    # The tail first: what is sealed between the two reads is then in the stored ones.
    tail = tail_of(history, engine_id, span, tier, only=_LOADS)
    with history.database.read() as session:
        windows = _stored_windows(session, engine_id, span, tier, limit)
    for window in tail.windows:
        windows.setdefault(int(window.start), window)
    points: list[ExpertPoint] = []
    for t0, window in sorted(windows.items())[:limit]:
        loads = window.arrays.get("assignments")
        if loads is None:
            continue
        if not (0 <= layer < loads.shape[1] and 0 <= expert < loads.shape[2]):
            raise _outside(layer, expert, loads.shape[1], loads.shape[2])
        row = loads[:, layer]
        points.append(ExpertPoint(float(t0), int(row[:, expert].sum()), int(row.sum())))
    if not points:
        newest = history.newest(engine_id)
        if newest is not None:
            layers, experts = newest.header.layers, newest.header.experts
            if not (0 <= layer < layers and 0 <= expert < experts):
                raise _outside(layer, expert, layers, experts)
    return ExpertSeries(tier, points, tail.until)


def _stored_windows(
    session: Session, engine_id: str, span: Span, tier: int, limit: int
) -> dict[int, EngineWindow]:
    """Loads of the stored intervals by start, the first `limit`; damaged ones are left out."""
    aligned = span.aligned(tier)
    rows = session.execute(
        select(LoadRollup.t0, LoadRollup.payload)
        .where(
            LoadRollup.engine_id == engine_id,
            LoadRollup.tier == tier,
            LoadRollup.t0 >= aligned.start,
            LoadRollup.t0 < aligned.end,
        )
        .order_by(LoadRollup.t0)
        .limit(limit)
    )
    windows: dict[int, EngineWindow] = {}
    for t0, payload in rows:
        try:
            windows[t0] = decode_window(payload, only=_LOADS)
        except CorruptChunkError:
            continue
    return windows


def _outside(layer: int, expert: int, layers: int, experts: int) -> InvalidInputError:
    return InvalidInputError(
        f"layer {layer}, expert {expert} is outside {layers} layers × {experts} experts",
        field="expert", value=[layer, expert], bound=[layers, experts],
    )  # fmt: skip


def layer_series(
    history: "History",
    engine_id: str,
    span: Span,
    *,
    tier: int,
    layers: Sequence[int],
    columns: Sequence[str],
    after: tuple[int, int] | None,
    limit: int,
) -> LayerSeries:
    """Stored rows and the tail's, by layer and time, after a (layer, t0).

    Raises:
        InvalidInputError: the engine never had one of the layers.
    """
    _check_layers(history, engine_id, layers)
    tail = tail_of(history, engine_id, span, tier, only=ARRAYS)
    with history.database.read() as session:
        stored = layer_rows(
            session, engine_id, span, tier=tier, layers=layers, columns=columns, after=after,
            limit=limit,
        )  # fmt: skip
    rows = {(row["layer"], row["t0"]): row for row in stored}
    names = ("layer", "t0", *columns)
    for window in tail.windows:
        for row in summarise(window, tier, int(window.start)):
            key = (row["layer"], row["t0"])
            if (not layers or row["layer"] in layers) and (after is None or key > after):
                rows.setdefault(key, {name: row[name] for name in names})
    return LayerSeries([row for _, row in sorted(rows.items())[:limit]], tail.until)


def _check_layers(history: "History", engine_id: str, layers: Sequence[int]) -> None:
    newest = history.newest(engine_id)
    bound = -1 if newest is None else newest.header.layers - 1
    if all(0 <= layer <= bound for layer in layers):
        return
    with history.database.read() as session:  # the model may have had more before
        highest = session.scalar(
            select(func.max(LayerSummary.layer)).where(LayerSummary.engine_id == engine_id)
        )
    bound = max(bound, -1 if highest is None else highest)
    for layer in layers:
        if not 0 <= layer <= bound:
            raise InvalidInputError(
                f"layer {layer} is outside 0 to {bound}", field="layer", value=layer, bound=bound
            )


def layer_rows(
    session: Session,
    engine_id: str,
    span: Span,
    *,
    tier: int,
    layers: Sequence[int],
    columns: Sequence[str],
    after: tuple[int, int] | None,
    limit: int,
) -> list[dict[str, Any]]:
    """Stored rows of layer, t0 and the columns, by layer and time, after a (layer, t0)."""
    table = LayerSummary.__table__.c
    aligned = span.aligned(tier)
    query = (
        select(table.layer, table.t0, *(table[name] for name in columns))
        .where(
            table.engine_id == engine_id,
            table.tier == tier,
            table.t0 >= aligned.start,
            table.t0 < aligned.end,
        )
        .order_by(table.layer, table.t0)
        .limit(limit)
    )
    if layers:
        query = query.where(table.layer.in_(layers))
    if after is not None:
        query = query.where(tuple_(table.layer, table.t0) > tuple_(*after))
    return [dict(row) for row in session.execute(query).mappings()]
