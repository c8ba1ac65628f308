"""`/admin/v1/capabilities`, `probe`, `router/what-if`, `placement`: the engine as it is."""

import asyncio

from fastapi import APIRouter, Request, Response

from contract.admin import (
    Cause,
    CauseKind,
    PlacementBody,
    ProbeResult,
    WhatIfRequest,
)
from engine.config import EngineConfig
from engine.errors import BadRequestError
from engine.server.admin.route import admin_router, mutated, shown
from engine.server.answers import Answer, Ticket
from engine.server.auth import TokenBook
from engine.server.bodies import read_body
from engine.server.capabilities import capabilities
from engine.server.governor import Governor
from engine.server.live_config import Change
from engine.server.tokens import Role


def engine_routes(
    governor: Governor, book: TokenBook, config: EngineConfig, *, simulated: bool
) -> tuple[APIRouter, APIRouter]:
    """Reads for viewers; what costs computing or changes something, for operators."""
    return _reads(governor, book, config, simulated=simulated), _operations(governor, book)


def _reads(
    governor: Governor, book: TokenBook, config: EngineConfig, *, simulated: bool
) -> APIRouter:
    router = admin_router(book, Role.VIEWER)
    live = governor.live

    @router.get("/capabilities")
    async def what_it_can() -> Response:
        return shown(capabilities(live, config, simulated=simulated))

    @router.get("/placement")
    async def placement() -> Response:
        return shown(live.placements.get(live.configs.current.config.placement), live.etag)

    return router


def _operations(governor: Governor, book: TokenBook) -> APIRouter:
    router = admin_router(book, Role.OPERATOR)
    live = governor.live

    @router.put("/placement")
    async def put_placement(request: Request) -> Response:
        return await mutated(request, governor, PlacementBody, _place)

    async def _place(body: PlacementBody, ticket: Ticket) -> Answer:
        config = live.configs.current.config.model_copy(update={"placement": body.placement_id})
        live.core.check(config)
        await asyncio.to_thread(live.placements.put, body)
        cause = Cause(kind=CauseKind.OPERATOR, reason=f"PUT placement {body.placement_id}")
        return await live.commit(Change(config=config, cause=cause), ticket)

    @router.post("/router/what-if")
    async def what_if(request: Request) -> Response:
        body = await read_body(request, WhatIfRequest)
        if (body.bias_hash is None) == (body.capacity_factor is None):
            raise BadRequestError(
                "send bias_hash or capacity_factor, exactly one of them",
                field="bias_hash", value=body.bias_hash, bound="exactly one",
            )  # fmt: skip
        bias = None if body.bias_hash is None else live.biases.load(body.bias_hash)
        return shown(await live.core.what_if(bias, body.capacity_factor))

    @router.post("/probe")
    async def probe() -> Response:
        loss, tokens = await live.core.probe()
        _, live_hash = await live.bias_now()
        return shown(
            ProbeResult(
                negative_log_likelihood=loss, tokens=tokens, bias_hash=live_hash,
                generation=live.configs.current.generation,
            )
        )  # fmt: skip

    return router
