"""What the query routes share: the history, the caller's role, and a checked span."""

from typing import Annotated

from fastapi import Depends, Query, Request
from pydantic import BaseModel, ConfigDict

from controlplane.auth.access import require
from controlplane.auth.roles import Principal, Role
from controlplane.errors import NotFoundError
from controlplane.history.history import History
from controlplane.history.tiers import Span, checked_span
from controlplane.history.window import EngineWindow
from controlplane.moment import Moment

DEFAULT_SPAN_SECONDS = 900.0


class Answer(BaseModel):
    """Base of every answer."""

    model_config = ConfigDict(frozen=True)


def _history(request: Request) -> History:
    history: History = request.app.state.history
    return history


Stored = Annotated[History, Depends(_history)]
Viewer = Annotated[Principal, Depends(require(Role.VIEWER))]
Operator = Annotated[Principal, Depends(require(Role.OPERATOR))]
_SAID = "unix seconds, or ISO 8601 with an offset (2026-11-29T12:00:00Z)"
Start = Annotated[
    Moment | None,
    Query(description=f"First moment of the span: {_SAID}; by default 900 s before its end"),
]
End = Annotated[Moment | None, Query(description=f"End of the span: {_SAID}; by default now")]


def span_of(history: History, start: float | None, end: float | None) -> Span:
    """The asked span, with its defaults.

    Raises:
        InvalidInputError: out of bounds.
    """
    until = history.clock.now() if end is None else end
    return checked_span(until - DEFAULT_SPAN_SECONDS if start is None else start, until)


def known(history: History, engine_id: str) -> str:
    """The id of an engine that sent frames.

    Raises:
        NotFoundError: it never did.
    """
    if engine_id not in history.engine_ids():
        raise NotFoundError(
            f"engine {engine_id!r} has sent no frame", field="engine_id", value=engine_id
        )
    return engine_id


def summed(window: EngineWindow | None, span: Span) -> EngineWindow:
    """The sum over a span, where there is one.

    Raises:
        NotFoundError: no frame is stored in the span.
    """
    if window is None:
        raise no_frame(span.start)
    return window


def no_frame(start: float | None) -> NotFoundError:
    """What a sum over a span without frames is answered with."""
    return NotFoundError("no frame is stored in this span", field="start", value=start)
