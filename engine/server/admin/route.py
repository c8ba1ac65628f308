"""What every admin route shares: who may call it, and how a mutation is run and answered."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from fastapi import APIRouter, Depends, Request, Response
from pydantic import BaseModel

from contract.headers import ADMIN_PREFIX, ETAG
from engine.server.answers import Answer, Ticket
from engine.server.auth import TokenBook, require
from engine.server.bodies import read_body, read_guard
from engine.server.governor import Governor
from engine.server.tokens import Role

JSON = "application/json"

Body = TypeVar("Body", bound=BaseModel)


def admin_router(book: TokenBook, role: Role) -> APIRouter:
    """Routes under the admin prefix for tokens that allow `role`."""
    return APIRouter(prefix=ADMIN_PREFIX, dependencies=[Depends(require(book, role))])


def shown(body: BaseModel, etag: str | None = None) -> Response:
    """A contract body as the answer of a read."""
    headers = None if etag is None else {ETAG: etag}
    return Response(body.model_dump_json(), media_type=JSON, headers=headers)


def answered(answer: Answer) -> Response:
    """The answer of a mutation; a replay says so."""
    headers = {} if answer.etag is None else {ETAG: answer.etag}
    if answer.replayed:
        headers["Idempotency-Replayed"] = "true"
    return Response(answer.body, status_code=answer.status, media_type=JSON, headers=headers)


async def mutated(
    request: Request,
    governor: Governor,
    model: type[Body],
    act: Callable[[Body, Ticket], Awaitable[Answer]],
    *,
    any_generation: bool = False,
) -> Response:
    """Read the body and the guard of a mutation, run it, answer."""
    body = await read_body(request, model)
    guard = read_guard(request, body.model_dump_json().encode())
    answer = await governor.mutate(
        guard, lambda ticket: act(body, ticket), any_generation=any_generation
    )
    return answered(answer)
