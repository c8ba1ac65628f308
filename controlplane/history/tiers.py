"""Which stored sums answer a question about [start, end). Pure.

Tiers are the lengths of stored intervals in seconds: 1 (frames), 10, 60, 3600. Coarse intervals
cover the middle of a span, finer ones its edges, down to the finest tier that the span deserves and
that retention still holds.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from controlplane.errors import InvalidInputError

FRAMES, SLICE, MINUTE, HOUR = 1, 10, 60, 3600
ROLLUPS = (HOUR, MINUTE, SLICE)
MAX_SPAN_SECONDS = 366 * 86_400.0
FRAMES_UP_TO_SECONDS = 300.0
TEN_UP_TO_SECONDS = 6 * 3600.0
MINUTES_UP_TO_SECONDS = 14 * 86_400.0
SERIES_POINTS = 2000


@dataclass(frozen=True, slots=True)
class Span:
    """[start, end) in unix seconds."""

    start: float
    end: float

    @property
    def seconds(self) -> float:
        """Its length."""
        return self.end - self.start

    def aligned(self, tier: int) -> "Span":
        """The whole intervals of a tier that touch it."""
        return Span(math.floor(self.start / tier) * tier, math.ceil(self.end / tier) * tier)


def checked_span(start: float, end: float) -> Span:
    """A span within bounds.

    Raises:
        InvalidInputError: not finite, empty, or too long.
    """
    if not (math.isfinite(start) and math.isfinite(end)):
        raise InvalidInputError(f"start {start} and end {end} must be finite", field="start")
    if not start < end:
        raise InvalidInputError(
            f"start {start} is not before end {end}", field="start", value=start, bound=end
        )
    if end - start > MAX_SPAN_SECONDS:
        raise InvalidInputError(
            f"the span of {end - start:.0f} s is over the bound of {MAX_SPAN_SECONDS:.0f} s",
            field="start", value=end - start, bound=MAX_SPAN_SECONDS,
        )  # fmt: skip
    return Span(start, end)


def finest(span: Span, *, kept_from: Mapping[int, float], single: bool) -> int:
    """The finest tier that a sum over the span goes down to.

    Frames for a single engine and at most 5 minutes, 10 s up to 6 hours, minutes up to 14 days,
    hours beyond; never finer than what is still kept at the span's start.

    Args:
        span: that is asked for.
        kept_from: first second that is kept, unix, by tier (1: frames).
        single: whether one engine is asked for.
    """
    deserved = (
        FRAMES if single and span.seconds <= FRAMES_UP_TO_SECONDS
        else 10 if span.seconds <= TEN_UP_TO_SECONDS
        else 60 if span.seconds <= MINUTES_UP_TO_SECONDS
        else 3600
    )  # fmt: skip
    tiers = (tier for tier in (FRAMES, 10, 60) if tier >= deserved)
    return next((tier for tier in tiers if span.start >= kept_from.get(tier, -math.inf)), 3600)


def series_tier(span: Span, tiers: tuple[int, ...] = ROLLUPS) -> int:
    """The finest tier that gives at most 2,000 points, else the coarsest."""
    for tier in sorted(tiers):
        if span.seconds / tier <= SERIES_POINTS:
            return tier
    return max(tiers)
