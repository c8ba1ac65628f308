"""`/admin/v1/router-bias`: list, get, store, roll back, mark good, recalibrate."""

from typing import Annotated

from fastapi import APIRouter, Path, Request, Response

from contract.admin import BiasMarkGood, BiasRecalibrate, BiasRollback
from contract.runtime_config import HASH_PATTERN
from engine.server import bias_changes
from engine.server.admin.route import admin_router, answered, mutated, shown
from engine.server.answers import Answer, Ticket
from engine.server.auth import TokenBook
from engine.server.bias_file import MEDIA_TYPE, from_safetensors, to_safetensors
from engine.server.bodies import read_body, read_guard
from engine.server.governor import Governor
from engine.server.tokens import Role

BiasHash = Annotated[str, Path(pattern=HASH_PATTERN)]


def bias_routes(governor: Governor, book: TokenBook) -> tuple[APIRouter, APIRouter]:
    """Reads for viewers, changes for operators."""
    return _reads(governor, book), _changes(governor, book)


def _reads(governor: Governor, book: TokenBook) -> APIRouter:
    router = admin_router(book, Role.VIEWER)

    @router.get("/router-bias")
    async def biases() -> Response:
        return shown(await bias_changes.list_biases(governor.live))

    @router.get("/router-bias/{bias_hash}")
    async def values(bias_hash: BiasHash) -> Response:
        bias = governor.live.biases.load(bias_hash)
        return Response(to_safetensors(bias), media_type=MEDIA_TYPE)

    return router


def _changes(governor: Governor, book: TokenBook) -> APIRouter:
    router = admin_router(book, Role.OPERATOR)
    live = governor.live

    @router.put("/router-bias/{bias_hash}")
    async def store(request: Request, bias_hash: BiasHash) -> Response:
        data = await request.body()
        guard = read_guard(request, data)
        layers, experts = bias_changes.require_bias(live).shape
        bias = from_safetensors(data, shape=(layers, experts))
        answer = await governor.mutate(
            guard, lambda ticket: bias_changes.upload(live, bias, bias_hash, ticket),
            any_generation=True,
        )  # fmt: skip
        return answered(answer)

    @router.post("/router-bias/rollback")
    async def rollback(request: Request) -> Response:
        return await mutated(request, governor, BiasRollback, _rollback)

    async def _rollback(body: BiasRollback, ticket: Ticket) -> Answer:
        return await bias_changes.roll_back(live, body, ticket)

    @router.post("/router-bias/mark-good")
    async def mark_good(request: Request) -> Response:
        return await mutated(request, governor, BiasMarkGood, _mark_good, any_generation=True)

    async def _mark_good(body: BiasMarkGood, ticket: Ticket) -> Answer:
        return await bias_changes.mark_good(live, body.bias_hash, ticket)

    @router.post("/router-bias/recalibrate")
    async def recalibrate(request: Request) -> Response:
        body = await read_body(request, BiasRecalibrate)
        guard = read_guard(request, body.model_dump_json().encode())
        replay = await governor.peek(guard, any_generation=True)
        if replay is not None:
            return answered(replay)
        # Computed outside the lock: it takes seconds, and a freeze must not wait for it.
        bias, result = await bias_changes.recalibrate(live, body)
        answer = await governor.mutate(
            guard, lambda ticket: bias_changes.store_recalibrated(live, bias, result, ticket),
            any_generation=True,
        )  # fmt: skip
        return answered(answer)

    return router
