"""Series over time: one expert from rollups, layers from `layer_summary`."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from sqlalchemy import Select, select, tuple_
from sqlalchemy.orm import Session

from controlplane.errors import InvalidInputError
from controlplane.history.chunk_codec import CorruptChunkError
from controlplane.history.models import LayerSummary, LoadRollup
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


def expert_series(
    history: "History", engine_id: str, span: Span, *, layer: int, expert: int, limit: int
) -> tuple[int, list[tuple[float, int, int]]]:
    """The tier, and per interval: start, assignments of the expert, of its layer. At most `limit`.

    Intervals of a model of another shape than the span's newest one are skipped.

    Raises:
        InvalidInputError: the newest model has no such layer or expert.
    """
    tier = series_tier(span)
    aligned = span.aligned(tier)
    points: list[tuple[float, int, int]] = []
    query = select(LoadRollup.t0, LoadRollup.payload).where(
        LoadRollup.engine_id == engine_id,
        LoadRollup.tier == tier,
        LoadRollup.t0 >= aligned.start,
        LoadRollup.t0 < aligned.end,
    )
    with history.database.read() as session:
        newest = query.order_by(LoadRollup.t0.desc()).execution_options(yield_per=1)
        shape = next((loads.shape[1:] for _, loads in _loads(session, newest)), None)
        if shape is None:
            return tier, points
        if not (0 <= layer < shape[0] and 0 <= expert < shape[1]):
            raise InvalidInputError(
                f"layer {layer}, expert {expert} is outside "
                f"{shape[0]} layers × {shape[1]} experts",
                field="expert", value=[layer, expert], bound=list(shape),
            )  # fmt: skip
        oldest = query.order_by(LoadRollup.t0).execution_options(yield_per=100)
        for t0, loads in _loads(session, oldest):
            if loads.shape[1:] != shape:
                continue
            row = loads[:, layer]
            points.append((float(t0), int(row[:, expert].sum()), int(row.sum())))
            if len(points) == limit:
                break
    return tier, points


def _loads(session: Session, query: Select[int, bytes]) -> Iterator[tuple[int, Sums]]:
    """Start and assignments of the intervals that can be read, and tell of them."""
    with session.execute(query) as rows:  # whoever has enough leaves the rest
        for t0, payload in rows:
            try:
                yield t0, decode_window(payload, only=("assignments",)).arrays["assignments"]
            except (CorruptChunkError, KeyError):
                continue


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
    """Rows of layer, t0 and the columns, by layer and time, after a (layer, t0)."""
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
