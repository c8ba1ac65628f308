"""An engine's windows of equal length over a span: from rollups, and from frames not yet sealed."""

import logging
import math
from bisect import bisect_left, bisect_right
from collections.abc import Collection
from typing import TYPE_CHECKING

from sqlalchemy import select

from contract.frame_stack import Stack
from controlplane.history.chunk_codec import CorruptChunkError
from controlplane.history.frames import stack_of_ring
from controlplane.history.models import LoadRollup
from controlplane.history.summing import WindowSum
from controlplane.history.tiers import Span
from controlplane.history.window import EngineWindow
from controlplane.history.window_codec import decode_window

if TYPE_CHECKING:
    from controlplane.history.history import History

LOGGER = logging.getLogger(__name__)


def intervals(
    history: "History",
    engine_id: str,
    span: Span,
    *,
    tier: int,
    seconds: int,
    only: Collection[str],
) -> list[EngineWindow]:
    """Windows [i·seconds, (i+1)·seconds) that have frames, oldest first.

    Args:
        history: of the engine.
        engine_id: whose.
        span: aligned outwards to `seconds`.
        tier: length of the rollups that are read: 10, 60 or 3600.
        seconds: length of a window, a multiple of `tier`.
        only: arrays to sum; the others are left out.
    """
    aligned = span.aligned(seconds)
    sums: dict[int, WindowSum] = {}
    query = (
        select(LoadRollup.t0, LoadRollup.payload)
        .where(
            LoadRollup.engine_id == engine_id, LoadRollup.tier == tier,
            LoadRollup.t0 >= aligned.start, LoadRollup.t0 < aligned.end,
        )
        .order_by(LoadRollup.t0)
    )  # fmt: skip
    with history.database.read() as session:
        for t0, payload in session.execute(query.execution_options(yield_per=200)):
            try:
                window = decode_window(payload, only=only)
            except CorruptChunkError:
                LOGGER.exception("rollup %s/%s/%s is left out", engine_id, tier, t0)
                continue
            sums.setdefault(math.floor(t0 / seconds), WindowSum()).merge(window)
        stack = stack_of_ring(
            session, history.cache, engine_id, aligned.start, aligned.end, unsealed_only=True
        )
    kept = Stack(stack.headers, [column for column in stack.columns if column.name in only])
    numbers = [math.floor(header.started_unix_seconds / seconds) for header in stack.headers]
    for index in sorted(set(numbers)):
        sums.setdefault(index, WindowSum()).add_stack(
            kept, bisect_left(numbers, index), bisect_right(numbers, index)
        )
    found = (
        total.window(engine_id, index * seconds, (index + 1) * seconds)
        for index, total in sorted(sums.items())
    )
    return [window for window in found if window is not None]
