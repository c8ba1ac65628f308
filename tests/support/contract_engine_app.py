"""The admin contract of a `ContractEngine` over HTTP: ETag, epoch, idempotency, trouble."""

import asyncio
import hashlib
from collections.abc import Callable
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ValidationError
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from contract.admin import BiasOrigin, ConfigHistory, MutationResult, ProbeResult, WhatIfRequest
from contract.headers import ETAG, FENCING_EPOCH, IDEMPOTENCY_KEY, IF_MATCH
from contract.problem import PROBLEM_MEDIA_TYPE, Problem
from tests.support.contract_engine import Applied, ContractEngine, RefusalError


def contract_engine_app(engine: ContractEngine) -> FastAPI:
    """The ASGI application."""
    app = FastAPI()
    prefix = "/admin/v1"

    @app.middleware("http")
    async def gate(request: Request, call_next: Any) -> Response:
        engine.requests.append((request.method, request.url.path, dict(request.headers)))
        if engine.trouble.down:
            return Response(status_code=502)
        if request.headers.get("authorization") != f"Bearer {engine.token}":
            problem = Problem(type="unauthenticated", title="", status=401, detail="no token")
            return JSONResponse(problem.model_dump(), 401, media_type=PROBLEM_MEDIA_TYPE)
        return await call_next(request)

    @app.exception_handler(RefusalError)
    async def refused(_request: Request, error: RefusalError) -> JSONResponse:
        body = error.problem.model_dump()
        return JSONResponse(body, error.problem.status, media_type=PROBLEM_MEDIA_TYPE)

    @app.exception_handler(ValidationError)
    async def invalid(_request: Request, error: ValidationError) -> JSONResponse:
        problem = Problem(type="bad-request", title="", status=422, detail=str(error))
        return JSONResponse(problem.model_dump(), 422, media_type=PROBLEM_MEDIA_TYPE)

    def answer(body: BaseModel, **headers: str) -> Response:
        return Response(body.model_dump_json(), media_type="application/json", headers=headers)

    @app.get(f"{prefix}/config")
    async def get_config() -> Response:
        return answer(engine.state(), ETag=engine.etag)

    @app.put(f"{prefix}/config")
    async def put_config(request: Request, *, dry_run: bool = False) -> Response:
        return await mutate(engine, request, lambda raw: engine.put_config(raw, dry_run=dry_run))

    @app.get(f"{prefix}/config/history")
    async def get_history() -> Response:
        return answer(ConfigHistory(documents=tuple(engine.documents)))

    @app.get(f"{prefix}/router-bias")
    async def get_biases() -> Response:
        return answer(engine.bias_list())

    @app.get(f"{prefix}/router-bias/{{bias_hash}}")
    async def get_bias(bias_hash: str) -> Response:
        if bias_hash not in engine.biases:
            raise RefusalError(404, "not-found", f"bias {bias_hash} is not stored")
        return Response(
            save_tensors({"bias": engine.biases[bias_hash]}),
            media_type="application/octet-stream",
        )

    @app.put(f"{prefix}/router-bias/{{bias_hash}}")
    async def put_bias(request: Request, bias_hash: str) -> Response:
        def store(raw: bytes) -> MutationResult:
            stored = engine.store_bias(load_tensors(raw)["bias"], BiasOrigin.UPLOAD)
            if stored != bias_hash:
                raise RefusalError(422, "bad-request", f"the body's hash is {stored}")
            return engine.result()

        return await mutate(engine, request, store)

    posts: dict[str, Callable[[bytes], MutationResult]] = {
        "config/rollback": engine.roll_back,
        "router-bias/rollback": engine.roll_bias_back,
        "router-bias/mark-good": engine.mark_good,
        "freeze": engine.freeze,
    }
    for path, act in posts.items():
        _post(engine, app, f"{prefix}/{path}", act)

    @app.delete(f"{prefix}/freeze")
    async def unfreeze(request: Request) -> Response:
        return await mutate(engine, request, engine.unfreeze, thaws=True)

    @app.post(f"{prefix}/router/what-if")
    async def what_if(request: Request) -> Response:
        wanted = WhatIfRequest.model_validate_json(await request.body())
        if wanted.bias_hash is not None and wanted.bias_hash not in engine.biases:
            raise RefusalError(404, "not-found", f"bias {wanted.bias_hash} is not stored")
        return answer(engine.what_if())

    @app.post(f"{prefix}/probe")
    async def probe() -> Response:
        return answer(
            ProbeResult(
                negative_log_likelihood=1.25, tokens=64, generation=engine.document.generation,
                bias_hash=engine.live_bias,
            )
        )  # fmt: skip

    @app.get(f"{prefix}/capabilities")
    async def capabilities() -> Response:
        return answer(engine.capabilities())

    return app


def _post(
    engine: ContractEngine, app: FastAPI, path: str, act: Callable[[bytes], MutationResult]
) -> None:
    async def route(request: Request) -> Response:
        return await mutate(engine, request, act)

    app.post(path)(route)


async def mutate(
    engine: ContractEngine,
    request: Request,
    act: Callable[[bytes], MutationResult],
    *,
    thaws: bool = False,
) -> Response:
    raw = await request.body()
    if engine.trouble.delay_seconds:
        await asyncio.sleep(engine.trouble.delay_seconds)
    if engine.trouble.lose_request:
        engine.trouble.lose_request = False
        return Response(status_code=502)
    epoch, key = guard_headers(engine, request)
    digest = hashlib.sha256(raw).hexdigest()
    if key in engine.answers:
        known, status, answer = engine.answers[key]
        if known != digest:
            raise RefusalError(422, "idempotency-key-reused", f"{key} had another body")
        return Response(answer, status, media_type="application/json")
    if engine.trouble.refuse is not None:
        raise RefusalError(
            engine.trouble.refuse.status, engine.trouble.refuse.type, engine.trouble.refuse.detail
        )
    if engine.frozen and not thaws:
        raise RefusalError(423, "frozen", engine.freeze_reason)
    if request.headers[IF_MATCH] != engine.etag:
        raise RefusalError(412, "precondition-failed", "stale If-Match", current=engine.etag)
    result = act(raw)
    if not result.dry_run:
        engine.epoch_seen = max(engine.epoch_seen, epoch)
        engine.answers[key] = (digest, 200, result.model_dump_json())
        engine.mutations.append(
            Applied(key, request.url.path, epoch, result.observed_generation, engine.config)
        )
    if engine.trouble.lose_answer:
        engine.trouble.lose_answer = False
        return Response(status_code=502)
    return Response(
        result.model_dump_json(), media_type="application/json", headers={ETAG: result.etag}
    )


def guard_headers(engine: ContractEngine, request: Request) -> tuple[int, str]:
    for name in (IF_MATCH, FENCING_EPOCH, IDEMPOTENCY_KEY):
        if name not in request.headers:
            raise RefusalError(428, "precondition-required", f"{name} is absent")
    epoch = int(request.headers[FENCING_EPOCH])
    if 0 < epoch < engine.epoch_seen:
        raise RefusalError(409, "stale-epoch", f"epoch {epoch} is stale", current=engine.epoch_seen)
    return epoch, request.headers[IDEMPOTENCY_KEY]
