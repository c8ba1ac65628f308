"""`/admin/v1/config` and `/admin/v1/freeze`."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from contract.admin import (
    ConfigHistory,
    ConfigPut,
    ConfigRollback,
    Freeze,
    MutationResult,
)
from contract.headers import config_etag
from engine.server.admin.route import admin_router, answered, mutated, shown
from engine.server.answers import Answer, Ticket
from engine.server.auth import TokenBook
from engine.server.bodies import read_body, read_guard
from engine.server.governor import Governor
from engine.server.live_config import Change
from engine.server.tokens import Role

_MAX_HISTORY = 1000


def config_routes(governor: Governor, book: TokenBook) -> tuple[APIRouter, APIRouter]:
    """Reads for viewers, changes for operators."""
    return _reads(governor, book), _changes(governor, book)


def _reads(governor: Governor, book: TokenBook) -> APIRouter:
    router = admin_router(book, Role.VIEWER)

    @router.get("/config")
    async def config() -> Response:
        state = governor.state()
        return shown(state, state.etag)

    @router.get("/config/history")
    async def history(limit: Annotated[int, Query(ge=1, le=_MAX_HISTORY)] = 100) -> Response:
        return shown(ConfigHistory(documents=governor.live.configs.history(limit)))

    return router


def _changes(governor: Governor, book: TokenBook) -> APIRouter:
    router = admin_router(book, Role.OPERATOR)

    @router.put("/config")
    async def put(request: Request, *, dry_run: bool = False) -> Response:
        if dry_run:
            return await _dry_run(request, governor)
        return await mutated(request, governor, ConfigPut, _put)

    async def _put(body: ConfigPut, ticket: Ticket) -> Answer:
        change = Change(config=body.config, cause=body.cause, lease_seconds=body.lease_seconds)
        return await governor.live.commit(change, ticket)

    @router.post("/config/rollback")
    async def rollback(request: Request) -> Response:
        return await mutated(request, governor, ConfigRollback, _rollback)

    async def _rollback(body: ConfigRollback, ticket: Ticket) -> Answer:
        live = governor.live
        config = live.configs.document(body.to).config
        _, live_hash = await live.bias_now()
        change = Change(
            config=config, cause=body.cause, reload_bias=live_hash != config.router_bias
        )
        return await live.commit(change, ticket)

    @router.post("/freeze")
    async def freeze(request: Request) -> Response:
        body = await read_body(request, Freeze)
        guard = read_guard(request, body.model_dump_json().encode())
        answer = await governor.mutate(
            guard, lambda ticket: governor.freeze(body, ticket),
            while_frozen=True, any_generation=True,
        )  # fmt: skip
        return answered(answer)

    @router.delete("/freeze")
    async def unfreeze(request: Request) -> Response:
        guard = read_guard(request, b"")
        answer = await governor.mutate(
            guard, governor.unfreeze, while_frozen=True, any_generation=True
        )
        return answered(answer)

    return router


async def _dry_run(request: Request, governor: Governor) -> Response:
    """Every check of a PUT, in its order, and nothing written: not even the epoch."""
    body = await read_body(request, ConfigPut)
    guard = read_guard(request, b"")
    live = governor.live
    governor.check_epoch(guard.epoch)
    governor.check_match(guard.if_match)
    governor.check_thawed()
    live.leases_with(Change(config=body.config, cause=body.cause, lease_seconds=body.lease_seconds))
    live.check(body.config)
    document = live.configs.current
    result = MutationResult(
        observed_generation=document.generation, config_hash=body.config.content_hash(),
        etag=config_etag(document.generation, document.config_hash), effective_at_step=None,
        dry_run=True,
    )  # fmt: skip
    return shown(result, result.etag)
