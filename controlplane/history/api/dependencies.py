"""What the query routes share: the history, the caller's role, and a checked span."""

from typing import Annotated

from fastapi import Depends, Query, Request
from pydantic import BaseModel, ConfigDict

from controlplane.auth.access import require
from controlplane.auth.roles import Principal, Role
from controlplane.errors import NotFoundError
from controlplane.history.history import History
from controlplane.history.tiers import Span, checked_span

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
Start = Annotated[
    float | None,
    Query(description="First second of the span, unix; by default 900 s before its end"),
]
End = Annotated[float | None, Query(description="End of the span, unix; by default now")]


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
