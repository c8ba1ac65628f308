"""`POST /v1/logs`: frames in. Durable before it is acknowledged, decoded off the event loop."""

from fastapi import APIRouter, Request, Response
from starlette.requests import ClientDisconnect

from contract.headers import CONTENT_TYPE_PROTOBUF, LOGS_PATH, RETRY_AFTER
from controlplane.auth.access import Access, bearer_of, require
from controlplane.auth.roles import Principal, Role
from controlplane.errors import (
    OverloadedError,
    PermissionDeniedError,
    StorageError,
    TrimtabError,
    UnauthenticatedError,
)
from controlplane.history.ring import Outcome
from controlplane.history.sequence import MOST_PER_SECOND
from controlplane.ingest import otlp
from controlplane.ingest.body import UndecodableBodyError, too_large
from controlplane.ingest.intake import Intake, Sent, Taken
from controlplane.ingest.sorting import Refusal, Sorted

MAX_MESSAGES = 5


_engine = require(Role.ENGINE)


async def _sender(request: Request) -> Principal:
    """Who sends; only a bearer token can be an engine's, so a cookie and its form are not read."""
    if bearer_of(request) is None:
        raise UnauthenticatedError("send the engine's telemetry token as a bearer token")
    return await _engine(request)


UNBOUNDED = 2**63
"""For the framework: `IngestSettings.max_body_bytes` bounds a request with frames."""

router = APIRouter(tags=["ingest"], max_body_size=UNBOUNDED)


@router.post(
    LOGS_PATH,
    summary="OTLP/HTTP logs: `moe.frame` events of one engine",
    responses={
        200: {"description": "Durable; a partial success names what was refused"},
        413: {"description": "Over a body bound, before or after decompression"},
        429: {"description": "Too many frames wait; Retry-After says when"},
        503: {"description": "The database cannot take a write; Retry-After says when"},
    },
)
async def receive_logs(request: Request) -> Response:
    """Store the frames of a request; answers in the request's own encoding."""
    # Nothing is taken from the framework but the request: `controlplane.app` calls this directly.
    principal = await _sender(request)
    intake: Intake = request.app.state.intake
    content_type = CONTENT_TYPE_PROTOBUF
    try:
        content_type = otlp.media_type(request.headers.get("content-type", ""))
        body = await _read(request, intake.settings.max_body_bytes)
        encoding = request.headers.get("content-encoding", "")
        sent = Sent(body, encoding, content_type, principal.engine_id or "")
        taken = await intake.take(sent)
        found = taken.found
        if found.refused and not found.accepted:
            await _refuse(request, principal, found)
        _require_stored(taken)
    except TrimtabError as error:
        return _failed(content_type, error)
    message = _join([refusal.message for refusal in found.refused] + found.warnings)
    answer = otlp.success(content_type, rejected=len(found.refused), message=message)
    return Response(answer, media_type=content_type)


async def _read(request: Request, bound: int) -> bytes:
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > bound:
        raise too_large(int(declared), bound, "body")
    pieces: list[bytes] = []
    size, more = 0, True
    while more:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        piece, more = message.get("body", b""), message.get("more_body", False)
        pieces.append(piece)
        size += len(piece)
        if size > bound:
            raise too_large(size, bound, "body")
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


async def _refuse(request: Request, principal: Principal, found: Sorted) -> None:
    """Nothing of the request can be taken: say so with a status, not with a 200."""
    said = _join([refusal.message for refusal in found.refused])
    if found.only_foreign:
        access: Access = request.app.state.access
        raise await access.deny(request, principal, "engine", said)
    if any(refusal.kind == "foreign" for refusal in found.refused):
        raise PermissionDeniedError(said)
    raise UndecodableBodyError(said, field="frame")


_SAID = {
    Outcome.RESET: (
        "sequence {sequence} of boot {boot!r} starts at {started:.3f}, which is not when that "
        "frame of this boot was: a restarted engine needs a new boot_id"
    ),
    Outcome.JUMP: (
        "sequence {sequence} of boot {boot!r} is farther from the one before than an engine can "
        f"count meanwhile, at {MOST_PER_SECOND} frames a second: a restarted engine needs a new "
        "boot_id"
    ),
}


def _require_stored(taken: Taken) -> None:
    """A sequence that no engine can count joins the refusals.

    Raises:
        StorageError: the ring has no room for some of the frames.
    """
    for received, outcome in zip(taken.found.accepted, taken.outcomes, strict=True):
        if outcome in _SAID:
            header = received.header
            message = _SAID[outcome].format(
                sequence=header.sequence, boot=header.boot_id, started=header.started_unix_seconds
            )
            taken.found.refused.append(Refusal(outcome, message))
    full = taken.outcomes.count(Outcome.RING_FULL)
    if full:
        # What of this request was stored is known as a duplicate when it is sent again.
        raise StorageError(
            f"{full} frames have no free slot in the ring until the frames in it are sealed: "
            "send again later",
            field="ring", value=full,
        )  # fmt: skip


def _join(messages: list[str]) -> str:
    shown = "; ".join(messages[:MAX_MESSAGES])
    more = len(messages) - MAX_MESSAGES
    return f"{shown}; and {more} more" if more > 0 else shown


def _failed(content_type: str, error: TrimtabError) -> Response:
    headers = {}
    if isinstance(error, OverloadedError | StorageError):
        headers[RETRY_AFTER] = str(max(1, round(error.retry_after_seconds)))
    body = otlp.failure(content_type, error.status, error.detail)
    return Response(body, error.status, headers=headers, media_type=content_type)
