"""Series over time: one expert from rollups, layers from `layer_summary`; then their tails."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import Select, func, select, tuple_
from sqlalchemy.orm import Session

from controlplane.errors import InvalidInputError
from controlplane.history.chunk_codec import CorruptChunkError
from controlplane.history.layer_summary import ARRAYS, summarise
from controlplane.history.models import LayerSummary, LoadRollup
from controlplane.history.tail import tail_of
from controlplane.history.tiers import Span, series_tier
from controlplane.history.window import Sums
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

    Intervals of a model of another shape than the span's newest one are skipped.

    Raises:
        InvalidInputError: the newest model has no such layer or expert.
    """
    tier = series_tier(span)
    # The tail first: what is sealed between the two reads is then in the stored ones.
    tail = tail_of(history, engine_id, span, tier, only=_LOADS)
    late = [
        (int(window.start), window.arrays["assignments"])
        for window in tail.windows if "assignments" in window.arrays
    ]  # fmt: skip
    aligned = span.aligned(tier)
    query = select(LoadRollup.t0, LoadRollup.payload).where(
        LoadRollup.engine_id == engine_id,
        LoadRollup.tier == tier,
        LoadRollup.t0 >= aligned.start,
        LoadRollup.t0 < aligned.end,
    )
    loads: dict[int, Sums] = {}
    with history.database.read() as session:
        newest = query.order_by(LoadRollup.t0.desc()).execution_options(yield_per=1)
        known = late[-1:] or _stored_loads(session, newest)
        shape = next((found.shape[1:] for _, found in known), None) or _told_shape(
            history, engine_id
        )
        if not (0 <= layer < shape[0] and 0 <= expert < shape[1]):
            raise InvalidInputError(
                f"layer {layer}, expert {expert} is outside {shape[0]} layers × {shape[1]} experts",
                field="expert", value=[layer, expert], bound=list(shape),
            )  # fmt: skip
        oldest = query.order_by(LoadRollup.t0).execution_options(yield_per=100)
        for t0, found in _stored_loads(session, oldest):
            if found.shape[1:] == shape:
                loads[t0] = found
            if len(loads) == limit:
                break
    for t0, found in late:
        if found.shape[1:] == shape:
            loads.setdefault(t0, found)
    points = [
        ExpertPoint(float(t0), int(found[:, layer, expert].sum()), int(found[:, layer].sum()))
        for t0, found in sorted(loads.items())[:limit]
    ]
    return ExpertSeries(tier, points, tail.until)


def _told_shape(history: "History", engine_id: str) -> tuple[int, ...]:
    """Layers and experts as the engine's newest frame says."""
    newest = history.newest(engine_id)
    return (0, 0) if newest is None else (newest.header.layers, newest.header.experts)


def _stored_loads(session: Session, query: Select[int, bytes]) -> Iterator[tuple[int, Sums]]:
    """Start and assignments of the intervals that can be read, and tell of them."""
    with session.execute(query) as rows:  # whoever has enough leaves the rest
        for t0, payload in rows:
            try:
                yield t0, decode_window(payload, only=_LOADS).arrays["assignments"]
            except (CorruptChunkError, KeyError):
                continue


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
