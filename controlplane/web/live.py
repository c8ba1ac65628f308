"""Server-sent events: pages renew themselves while somebody looks.

A stream sends the parts of the page that changed, as HTML, and for an engine also `load` (the
expert matrix, base64 of `history.load_matrix.to_bytes`) and `tick` when a frame arrived. It ends
after ten minutes: the browser comes back, and is asked again who it is.
"""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query, Request
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.concurrency import run_in_threadpool

from controlplane.errors import NotFoundError, OverloadedError
from controlplane.history import load_matrix
from controlplane.history.history import History
from controlplane.history.tiers import Span
from controlplane.web import action_view, engine, engine_view, fleet
from controlplane.web.access import Governing, Stored, Viewer
from controlplane.web.rendering import shared

router = APIRouter(prefix="/live", include_in_schema=False)

LIFE_SECONDS = 600.0
LOOK_SECONDS = 1.0
MAX_STREAMS = 256
RETRY_MS = 2000
LoadSeconds = Annotated[int, Query(alias="load", ge=1, le=engine.LOAD_SECONDS[-1])]
Phase = Annotated[Literal["both", "prefill", "decode"], Query()]
Events = list[ServerSentEvent]


class Streams:
    """How many are open; in `app.state.streams`."""

    def __init__(self) -> None:
        self.open = 0


def _streams(request: Request) -> Streams:
    streams: Streams = request.app.state.streams
    return streams


Counted = Annotated[Streams, Depends(_streams)]


@router.get("/fleet")
async def live_fleet(
    _viewer: Viewer, governing: Governing, history: Stored, streams: Counted
) -> EventSourceResponse:
    """The fleet's table."""
    last = _Changed()

    def look() -> Events:
        return last.parts({"html": fleet.live_table(engine_view.fleet(governing, history))})

    return _stream(streams, look)


@router.get("/engines/{engine_id}")
async def live_engine(
    engine_id: str, request: Request, viewer: Viewer, governing: Governing, history: Stored,
    streams: Counted, load: LoadSeconds = 60, phase: Phase = "both",
) -> EventSourceResponse:  # fmt: skip
    """An engine's summary, expert loads and the beat of its frames."""
    last, visitor = _Changed(), shared(request, viewer)
    loads = _Loads(history, engine_id, load, phase)

    def look() -> Events:
        view = engine_view.engine(governing, history, engine_id)
        parts = engine.live_parts(view, governing, visitor)
        return [*last.parts(parts), *loads.look(view.newest_ended)]

    return _stream(streams, look)


@router.get("/actions/{action_id}")
async def live_action(
    action_id: str, request: Request, viewer: Viewer, governing: Governing, streams: Counted
) -> EventSourceResponse:
    """An action's detail."""
    last, visitor = _Changed(), shared(request, viewer)

    def look() -> Events:
        return last.parts({"html": action_view.live_detail(governing, action_id, visitor)})

    return _stream(streams, look)


class _Changed:
    """Sends a part of the page only when it differs from what was sent last."""

    def __init__(self) -> None:
        self._last: dict[str, str] = {}

    def parts(self, parts: dict[str, str]) -> Events:
        """Events of the parts, by name, that changed."""
        changed = {name: html for name, html in parts.items() if self._last.get(name) != html}
        self._last |= changed
        return [ServerSentEvent(html, event=name, retry=RETRY_MS) for name, html in changed.items()]


class _Loads:
    """The matrix of the last seconds, anew with every frame; long spans less often."""

    def __init__(self, history: History, engine_id: str, seconds: int, phase: str) -> None:
        self._history = history
        self._engine_id = engine_id
        self._seconds = seconds
        self._phase = None if phase == "both" else phase
        self._sent: float | None = None

    def look(self, ended: float | None) -> Events:
        if ended is None or ended == self._sent:
            return []
        due = self._sent is None or ended < self._sent or ended - self._sent >= self._every
        if not due:
            return []
        self._sent = ended
        (covered,) = self._history.sums(
            [self._engine_id], Span(ended - self._seconds, ended), only=("assignments",)
        )
        window = covered.window
        matrix = None if window is None else load_matrix.of_windows([window], self._phase)
        tick = ServerSentEvent(json.dumps({"ended": ended}), event="tick")
        if matrix is None:
            return [tick]
        packed = base64.b64encode(load_matrix.to_bytes(matrix)).decode()
        return [ServerSentEvent(packed, event="load"), tick]

    @property
    def _every(self) -> float:
        return self._seconds / 60.0


def _stream(streams: Streams, look: Callable[[], Events]) -> EventSourceResponse:
    if streams.open >= MAX_STREAMS:
        raise OverloadedError(
            f"{streams.open} pages are live already", retry_after_seconds=30.0,
            field="streams", value=streams.open, bound=MAX_STREAMS,
        )  # fmt: skip

    async def events() -> AsyncIterator[ServerSentEvent]:
        streams.open += 1
        loop = asyncio.get_running_loop()
        end = loop.time() + LIFE_SECONDS
        try:
            while loop.time() < end:
                for event in await run_in_threadpool(look):
                    yield event
                await asyncio.sleep(LOOK_SECONDS)
        except NotFoundError as error:
            yield ServerSentEvent(error.detail, event="gone")
        finally:
            streams.open -= 1

    return EventSourceResponse(events(), ping=15)
