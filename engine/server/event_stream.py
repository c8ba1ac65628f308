"""Server-sent events that end the generation the moment the client goes away."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

Result = TypeVar("Result")


class ClientGoneError(Exception):
    """The client disconnected before it was answered; nobody reads an error body."""


async def disconnected(receive: Receive) -> None:
    """Return when the client has gone; the body must have been read before."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def unless_disconnected(request: Request, work: Awaitable[Result]) -> Result:
    """The result of `work`, cancelled with ClientGoneError when the client goes away first."""
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(disconnected(request.receive))
    try:
        await asyncio.wait((task, gone), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientGoneError
        return task.result()
    finally:
        await _cancel(task)
        await _cancel(gone)


async def _cancel(task: "asyncio.Future[Result] | asyncio.Future[None]") -> None:
    task.cancel()
    await asyncio.wait((task,))
    if not task.cancelled():
        task.exception()  # seen: it was raised by the caller, or nobody is there to read it


class EventStream(Response):
    """Sends each text of `events` as `data:`; `close` runs at the end, whatever the end is."""

    media_type = "text/event-stream"

    def __init__(
        self, events: AsyncGenerator[str, None], close: Callable[[], Awaitable[None]]
    ) -> None:
        super().__init__(headers={"Cache-Control": "no-store"})
        del self.headers["content-length"]
        self._events = events
        self._close = close

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the generator ends or the client is gone."""
        del scope
        sending = asyncio.ensure_future(self._send_all(send))
        gone = asyncio.ensure_future(disconnected(receive))
        try:
            await asyncio.wait((sending, gone), return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                sending.result()
        finally:
            await _cancel(sending)
            await _cancel(gone)
            await self._close()

    async def _send_all(self, send: Send) -> None:
        async with aclosing(self._events) as events:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            async for data in events:
                body = f"data: {data}\n\n".encode()
                await send({"type": "http.response.body", "body": body, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
