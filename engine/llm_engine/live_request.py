"""A request that the engine works on: its sequence, its times, and where its tokens go."""

from collections import deque
from dataclasses import dataclass, field

from engine.llm_engine.token_stream import Event, TokenStream
from engine.scheduling.sequence import Sequence

_WINDOW_SECONDS = 10.0

Delivery = tuple[TokenStream, Event]


@dataclass(slots=True)
class LiveRequest:
    """One request between arrival and its last token. Times are monotonic seconds.

    Attributes:
        sequence: what the scheduler works on.
        tokens: where its reader waits for them; touched on the event loop only.
        arrived: when the server handed it over.
        first_token, last_token: when they were drawn, None before.
    """

    sequence: Sequence
    tokens: TokenStream
    arrived: float
    first_token: float | None = None
    last_token: float | None = None


def deliver(deliveries: list[Delivery]) -> None:
    """Hand a step's tokens to their readers; runs on the event loop, once a step."""
    for tokens, event in deliveries:
        tokens.put(event)


@dataclass(slots=True)
class FinishRate:
    """How many requests finished a second of late: the measure behind Retry-After."""

    _times: deque[float] = field(default_factory=deque)

    def finished(self, now: float) -> None:
        """A request finished."""
        self._times.append(now)
        while self._times and self._times[0] < now - _WINDOW_SECONDS:
            self._times.popleft()

    def per_second(self, now: float) -> float:
        """Mean rate over the last ten seconds, 0 when nothing finished."""
        recent = sum(1 for time in tuple(self._times) if time >= now - _WINDOW_SECONDS)
        return recent / _WINDOW_SECONDS
