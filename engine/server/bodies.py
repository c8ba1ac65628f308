"""Reading a request: its body within a bound, and the headers that guard a mutation."""

import hashlib
from typing import TypeVar

from fastapi import Request
from pydantic import BaseModel, ValidationError
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from contract.headers import FENCING_EPOCH, IDEMPOTENCY_KEY, IF_MATCH
from engine.errors import BadRequestError, BodyTooLargeError, PreconditionError
from engine.server.answers import Ticket
from engine.server.governor import Guard
from engine.server.problems import bad_body

Body = TypeVar("Body", bound=BaseModel)

_MAX_EPOCH = 2**63 - 1
_MAX_KEY_CHARACTERS = 200


class BodyLimit:
    """ASGI middleware: a body over `max_bytes` is refused before or while it is read."""

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        self._app = app
        self._max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Count what is received."""
        received = 0

        async def counted() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self._max_bytes:
                raise BodyTooLargeError(
                    f"the body has more than {self._max_bytes} bytes",
                    field="body", value=received, bound=f"<= {self._max_bytes} bytes",
                )  # fmt: skip
            return message

        await self._app(scope, counted if scope["type"] == "http" else receive, send)


async def read_body(request: Request, model: type[Body]) -> Body:
    """The JSON body as `model`; BadRequestError names the field, its value and the bound."""
    data = await request.body()
    try:
        return model.model_validate_json(data or b"{}")
    except ValidationError as error:
        raise bad_body(error, model) from None


def read_guard(request: Request, body: bytes) -> Guard:
    """The guard of a mutation whose canonical body is `body`.

    Raises:
        PreconditionError: `If-Match` is absent (428).
        BadRequestError: the epoch or the key is absent or out of bounds.
    """
    if_match = request.headers.get(IF_MATCH)
    if not if_match:
        raise PreconditionError(
            f"send {IF_MATCH} with the ETag of GET config, so that nothing is overwritten unseen",
            absent=True, field=IF_MATCH, bound="required",
        )  # fmt: skip
    key = request.headers.get(IDEMPOTENCY_KEY, "")
    if not key or len(key) > _MAX_KEY_CHARACTERS:
        raise BadRequestError(
            f"send {IDEMPOTENCY_KEY}: 1 to {_MAX_KEY_CHARACTERS} characters, new for each change",
            field=IDEMPOTENCY_KEY, value=key[:_MAX_KEY_CHARACTERS] or None,
            bound=f"1 … {_MAX_KEY_CHARACTERS} characters",
        )  # fmt: skip
    asked = f"{request.method} {request.url.path}?{request.url.query}\n".encode()
    fingerprint = hashlib.sha256(asked + body).hexdigest()
    return Guard(
        if_match=if_match, epoch=_epoch(request), ticket=Ticket(key=key, fingerprint=fingerprint)
    )


def _epoch(request: Request) -> int:
    text = request.headers.get(FENCING_EPOCH, "")
    if not (text.isascii() and text.isdigit() and len(text) < 20 and int(text) <= _MAX_EPOCH):
        raise BadRequestError(
            f"send {FENCING_EPOCH}: the fencing epoch of the caller's lease, 0 for a human",
            field=FENCING_EPOCH, value=text[:40] or None, bound=f"0 … {_MAX_EPOCH}",
        )  # fmt: skip
    return int(text)
