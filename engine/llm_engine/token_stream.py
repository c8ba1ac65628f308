"""Where one request's tokens wait for their one reader; all of it on one event loop."""

import asyncio
from collections import deque

from engine.errors import EngineError
from engine.llm_engine.exchange import TokenEvent

Event = TokenEvent | EngineError


class TokenStream:
    """An unbounded queue for a single reader: half the cost of `asyncio.Queue` for a token."""

    __slots__ = ("_events", "_reader")

    def __init__(self) -> None:
        self._events: deque[Event] = deque()
        self._reader: asyncio.Future[None] | None = None

    def put(self, event: Event) -> None:
        """Add an event and wake the reader."""
        self._events.append(event)
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    async def get(self) -> Event:
        """The next event, awaited where there is none."""
        while not self._events:
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader
        return self._events.popleft()
