"""Every error of the server as problem+json: the one place that maps exceptions to HTTP."""

from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from contract.headers import RETRY_AFTER
from contract.problem import PROBLEM_MEDIA_TYPE, Problem
from contract.runtime_config import CAPACITY_LADDER, CHUNK_SIZES
from engine.errors import BadRequestError, EngineError, QueueFullError, UnauthenticatedError
from engine.server.event_stream import ClientGoneError

CLIENT_CLOSED_REQUEST = 499
"""nginx's number. Nobody reads it: the client is gone."""
_SHOWN_CHARACTERS = 200
_LISTED: dict[str, tuple[object, ...]] = {
    "capacity_factor": (*CAPACITY_LADDER, None), "chunk_size": CHUNK_SIZES,
}  # fmt: skip
_BOUNDS = {
    "greater_than_equal": (">=", "ge"), "greater_than": (">", "gt"),
    "less_than_equal": ("<=", "le"), "less_than": ("<", "lt"),
    "string_too_long": ("characters <=", "max_length"),
    "string_too_short": ("characters >=", "min_length"),
    "too_long": ("items <=", "max_length"), "too_short": ("items >=", "min_length"),
    "enum": ("one of", "expected"), "literal_error": ("one of", "expected"),
    "string_pattern_mismatch": ("pattern", "pattern"),
}  # fmt: skip


def install_problem_handlers(app: FastAPI) -> None:
    """Answer every exception of `app` with a problem."""
    for kind in (EngineError, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(kind, _handle)
    for gone in (ClientDisconnect, ClientGoneError):
        app.add_exception_handler(gone, _nobody_reads)


async def _nobody_reads(_request: Request, _error: Exception) -> Response:
    """A client that went away in its upload or its wait is no fault of ours: no word of it."""
    return Response(status_code=CLIENT_CLOSED_REQUEST)


async def _handle(_request: Request, error: Exception) -> Response:
    headers: dict[str, str] = {}
    if isinstance(error, QueueFullError):
        headers[RETRY_AFTER] = str(max(1, round(error.retry_after_seconds)))
    if isinstance(error, UnauthenticatedError):
        headers["WWW-Authenticate"] = "Bearer"
    return problem_response(problem_of(error), headers)


def problem_response(problem: Problem, headers: dict[str, str] | None = None) -> Response:
    """A response with the problem as its body."""
    return Response(
        problem.model_dump_json(exclude_none=True), status_code=problem.status, headers=headers,
        media_type=PROBLEM_MEDIA_TYPE,
    )  # fmt: skip


def problem_of(error: Exception) -> Problem:
    """The problem of any exception; one we did not foresee is logged by the server, not told."""
    match error:
        case EngineError():
            return error.problem()
        case RequestValidationError():
            return first_error(error.errors()[0]).problem()
        case HTTPException():
            return Problem(
                type="http", title="HTTP error", status=error.status_code,
                detail=str(error.detail),
            )  # fmt: skip
        case _:
            return Problem(
                type="internal", title="Internal error", status=500,
                detail="the engine met an unexpected error; its log has the details",
            )  # fmt: skip


def bad_body(error: ValidationError, model: type[BaseModel]) -> BadRequestError:
    """The first error of a body, naming field, value and bound."""
    details = error.errors(include_url=False)[0]
    return first_error(details, known=_fields_at(model, details["loc"][:-1]))


def first_error(
    details: ErrorDetails | dict[str, Any], known: tuple[str, ...] = ()
) -> BadRequestError:
    """A pydantic error as ours; `known` are the fields of the object that it stands in."""
    location = tuple(str(part) for part in details["loc"])
    field = ".".join(location) or "body"
    kind = str(details["type"])
    message = str(details["msg"]).removeprefix("Value error, ")
    bound: object = _bound(kind, details.get("ctx") or {})
    if kind == "value_error" and location and location[-1] in _LISTED:
        bound = _LISTED[location[-1]]
    if kind == "extra_forbidden":
        message = f"unknown field; known are {', '.join(known)}" if known else "unknown field"
        bound = known or None
    if kind == "missing":
        bound = "required"
    value = None if kind == "missing" else shown(details["input"])
    return BadRequestError(f"{field}: {message}", field=field, value=value, bound=bound)


def _fields_at(model: type[BaseModel], location: tuple[int | str, ...]) -> tuple[str, ...]:
    """Names of the fields of the object at `location` inside a body."""
    for part in location:
        field = model.model_fields.get(str(part))
        inner = None if field is None else field.annotation
        if not (isinstance(inner, type) and issubclass(inner, BaseModel)):
            return ()
        model = inner
    return tuple(model.model_fields)


def _bound(kind: str, context: dict[str, Any]) -> str | None:
    if kind in _BOUNDS:
        sign, key = _BOUNDS[kind]
        return f"{sign} {context[key]}"
    return str(context["error"]) if "error" in context else None


def shown(value: object) -> object:
    """A value short enough to send back."""
    if value is None or isinstance(value, bool | int | float):
        return value
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "…"
