"""What a series has after its newest stored interval: sums of frames that are not sealed yet.

Hours are summed some minutes after their end, so the tail of an hourly series is made of minutes
too. The last interval of a tail is usually not over.
"""

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import func, select

from controlplane.history.intervals import intervals
from controlplane.history.models import LoadRollup
from controlplane.history.tiers import HOUR, MINUTE, Span
from controlplane.history.window import EngineWindow

if TYPE_CHECKING:
    from controlplane.history.history import History


@dataclass(frozen=True, slots=True)
class Tail:
    """Windows of a tier's length after the stored ones, oldest first.

    Attributes:
        windows: may repeat a stored interval that was sealed meanwhile; the stored one counts.
        until: up to when the span is covered, stored intervals included, unix seconds: an interval
            that ends later is partial. None when nothing is there.
    """

    windows: tuple[EngineWindow, ...]
    until: float | None


def tail_of(
    history: "History", engine_id: str, span: Span, tier: int, *, only: Collection[str]
) -> Tail:
    """The tail of a series of `tier` (10, 60 or 3600) seconds over the intervals that touch `span`.

    Reads at most some 75 frames, and for hours 120 stored minutes.
    """
    aligned = span.aligned(tier)
    with history.database.read() as session:
        newest = session.scalar(
            select(func.max(LoadRollup.t0)).where(
                LoadRollup.engine_id == engine_id, LoadRollup.tier == tier,
                LoadRollup.t0 >= aligned.start, LoadRollup.t0 < aligned.end,
            )
        )  # fmt: skip
    stored = None if newest is None else float(newest + tier)
    start = aligned.start if stored is None else stored
    if tier == HOUR:
        start = max(start, math.floor(history.clock.now() / HOUR) * HOUR - HOUR)
    if start >= aligned.end:
        return Tail((), stored)
    windows = intervals(
        history, engine_id, Span(start, aligned.end), tier=min(tier, MINUTE), seconds=tier,
        only=only,
    )  # fmt: skip
    if not windows:
        return Tail((), stored)
    return Tail(tuple(windows), windows[-1].header.ended_unix_seconds)
