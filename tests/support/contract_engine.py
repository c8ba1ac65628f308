"""A small engine that keeps the admin contract over real HTTP: ETag, epoch, idempotency, leases.

It has no model. Tests read `engine.mutations` for what was truly applied, and set `engine.trouble`
to make it lose answers, refuse, or be slow.
"""

import asyncio
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ValidationError
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from contract.admin import (
    BiasInfo,
    BiasList,
    BiasMarkGood,
    BiasOrigin,
    BiasRollback,
    BiasStatus,
    Capabilities,
    Cause,
    CauseKind,
    ConfigDocument,
    ConfigHistory,
    ConfigPut,
    ConfigRollback,
    ConfigState,
    Freeze,
    KnobCapability,
    KnobSupport,
    Lease,
    MutationResult,
    ProbeResult,
    RankAck,
    WhatIfRequest,
    WhatIfResponse,
    WhatIfSide,
)
from contract.headers import ETAG, FENCING_EPOCH, IDEMPOTENCY_KEY, IF_MATCH, config_etag
from contract.problem import PROBLEM_MEDIA_TYPE, Problem
from contract.runtime_config import KNOBS, BiasUpdate, RuntimeConfig

LAYERS, EXPERTS = 2, 8


class RefusalError(Exception):
    """A problem answer."""

    def __init__(self, status: int, kind: str, detail: str, current: Any = None) -> None:
        super().__init__(detail)
        self.problem = Problem(type=kind, title=kind, status=status, detail=detail, current=current)


@dataclass
class Trouble:
    """What goes wrong next; each is used once unless it says otherwise."""

    lose_answer: bool = False
    """Apply the next mutation, then answer 502 with no problem body, as a dying proxy would."""
    lose_request: bool = False
    """Answer 502 to the next mutation without applying it."""
    refuse: Problem | None = None
    """Refuse every mutation with this (stays)."""
    down: bool = False
    """Answer 502 to everything (stays)."""
    delay_seconds: float = 0.0
    """Delay of every mutation (stays)."""


@dataclass(frozen=True)
class Applied:
    """A mutation that changed the engine."""

    key: str
    path: str
    epoch: int
    generation: int
    config: RuntimeConfig


@dataclass
class ContractEngine:
    """The state of one engine."""

    engine_id: str = "engine-0"
    group: str = "group-0"
    token: str = "engine-secret"
    now: Callable[[], float] = lambda: 1_700_000_000.0
    trouble: Trouble = field(default_factory=Trouble)
    mutations: list[Applied] = field(default_factory=list)
    requests: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    documents: list[ConfigDocument] = field(default_factory=list)
    biases: dict[str, np.ndarray] = field(default_factory=dict)
    infos: dict[str, BiasInfo] = field(default_factory=dict)
    answers: dict[str, tuple[str, int, str]] = field(default_factory=dict)
    leases: dict[str, tuple[str | int | None, float, str]] = field(default_factory=dict)
    live_bias: str = ""
    last_known_good: str | None = None
    epoch_seen: int = 0
    frozen: bool = False
    freeze_reason: str = ""

    def __post_init__(self) -> None:
        good = self.store_bias(np.zeros((LAYERS, EXPERTS), np.float32), BiasOrigin.CHECKPOINT)
        self.live_bias, self.last_known_good = good, good
        config = RuntimeConfig(router_bias=good)
        self.commit(config, Cause(kind=CauseKind.BOOT))

    # State -------------------------------------------------------------------------------------

    @property
    def document(self) -> ConfigDocument:
        return self.documents[-1]

    @property
    def config(self) -> RuntimeConfig:
        return self.document.config

    @property
    def etag(self) -> str:
        return config_etag(self.document.generation, self.document.config_hash)

    def commit(self, config: RuntimeConfig, cause: Cause) -> ConfigDocument:
        generation = len(self.documents)
        document = ConfigDocument(
            generation=generation, config_hash=config.content_hash(), config=config,
            parent=generation - 1 if generation else None, cause=cause,
            committed_unix_seconds=self.now(), effective_at_step=generation * 10,
        )  # fmt: skip
        self.documents.append(document)
        if config.router_bias is not None:
            self.live_bias = config.router_bias
        return document

    def change(
        self, actor: str = "kim", kind: CauseKind = CauseKind.OPERATOR, **knobs: Any
    ) -> None:
        """A generation that someone else wrote."""
        config = RuntimeConfig.model_validate({**self.config.model_dump(), **knobs})
        self.commit(config, Cause(kind=kind, actor=actor, id="by-hand"))

    def store_bias(self, bias: np.ndarray, origin: BiasOrigin) -> str:
        bias_hash = hashlib.sha256(np.ascontiguousarray(bias, np.float32).tobytes()).hexdigest()
        if bias_hash not in self.biases:
            self.biases[bias_hash] = bias
            self.infos[bias_hash] = BiasInfo(
                bias_hash=bias_hash, version=len(self.biases), origin=origin,
                status=BiasStatus.CANDIDATE, created_unix_seconds=self.now(), layers=LAYERS,
                experts=EXPERTS, distance=float(np.abs(bias).max()),
                max_abs=float(np.abs(bias).max()),
            )  # fmt: skip
        return bias_hash

    def drift(self, size: float = 0.5) -> str:
        """A regulator moves the live bias; the configured one stays."""
        moved = np.zeros((LAYERS, EXPERTS), np.float32)
        moved[:, 0] = size
        self.live_bias = self.store_bias(moved, BiasOrigin.REGULATOR)
        return self.live_bias

    def expire_lease(self, knob: str) -> None:
        """As if the monotonic clock had passed the lease's end."""
        restore, _, _ = self.leases.pop(knob)
        config = RuntimeConfig.model_validate({**self.config.model_dump(), knob: restore})
        self.commit(config, Cause(kind=CauseKind.LEASE, reason=f"lease on {knob} expired"))

    def state(self) -> ConfigState:
        leases = tuple(
            Lease(knob=knob, restore=restore, expires_in_seconds=seconds, holder=holder)
            for knob, (restore, seconds, holder) in self.leases.items()
        )
        return ConfigState(
            document=self.document, etag=self.etag, epoch_seen=self.epoch_seen,
            frozen=self.frozen, freeze_reason=self.freeze_reason, leases=leases,
        )  # fmt: skip

    def bias_list(self) -> BiasList:
        return BiasList(
            configured_hash=self.config.router_bias, live_hash=self.live_bias,
            last_known_good=self.last_known_good, versions=tuple(self.infos.values()),
        )  # fmt: skip

    def result(self, *, dry_run: bool = False, renewed: bool = False) -> MutationResult:
        document = self.document
        return MutationResult(
            observed_generation=document.generation, config_hash=document.config_hash,
            etag=self.etag, effective_at_step=document.effective_at_step, dry_run=dry_run,
            ranks=(RankAck(rank=0, generation=document.generation, step=0),), renewed=renewed,
        )  # fmt: skip

    # Mutations ---------------------------------------------------------------------------------

    def put_config(self, raw: bytes, *, dry_run: bool) -> MutationResult:
        body = ConfigPut.model_validate_json(raw)
        if body.config.router_bias is not None and body.config.router_bias not in self.biases:
            raise RefusalError(404, "not-found", f"bias {body.config.router_bias} is not stored")
        if dry_run:
            return self.result(dry_run=True)
        before = self.config
        holder = f"{body.cause.kind}:{body.cause.id or body.cause.actor}"
        for knob in KNOBS:
            if knob in body.lease_seconds:
                restore = self.leases[knob][0] if knob in self.leases else getattr(before, knob)
                self.leases[knob] = (restore, body.lease_seconds[knob], holder)
            elif getattr(before, knob) != getattr(body.config, knob):
                self.leases.pop(knob, None)
        if body.config == before and body.lease_seconds:
            return self.result(renewed=True)
        self.commit(body.config, body.cause)
        return self.result()

    def roll_back(self, raw: bytes) -> MutationResult:
        body = ConfigRollback.model_validate_json(raw)
        if body.to >= len(self.documents):
            raise RefusalError(404, "not-found", f"generation {body.to} is not stored")
        self.commit(self.documents[body.to].config, body.cause)
        return self.result()

    def roll_bias_back(self, raw: bytes) -> MutationResult:
        body = BiasRollback.model_validate_json(raw)
        if body.bias_hash not in self.biases:
            raise RefusalError(404, "not-found", f"bias {body.bias_hash} is not stored")
        config = self.config.model_copy(
            update={"router_bias": body.bias_hash, "bias_update": BiasUpdate.OFF}
        )
        self.commit(config, body.cause)
        return self.result()

    def mark_good(self, raw: bytes) -> MutationResult:
        body = BiasMarkGood.model_validate_json(raw)
        wanted = body.bias_hash or self.live_bias
        if wanted not in self.biases:
            raise RefusalError(404, "not-found", f"bias {wanted} is not stored")
        self.last_known_good = wanted
        return self.result()

    def freeze(self, raw: bytes) -> MutationResult:
        self.freeze_reason = Freeze.model_validate_json(raw).reason
        self.frozen = True
        return self.result()

    def unfreeze(self, _raw: bytes) -> MutationResult:
        self.frozen, self.freeze_reason = False, ""
        return self.result()

    async def mutate(
        self, request: Request, act: Callable[[bytes], MutationResult], *, thaws: bool = False
    ) -> Response:
        raw = await request.body()
        if self.trouble.delay_seconds:
            await asyncio.sleep(self.trouble.delay_seconds)
        if self.trouble.lose_request:
            self.trouble.lose_request = False
            return Response(status_code=502)
        epoch, key = self.guard_headers(request)
        digest = hashlib.sha256(raw).hexdigest()
        if key in self.answers:
            known, status, answer = self.answers[key]
            if known != digest:
                raise RefusalError(422, "idempotency-key-reused", f"{key} had another body")
            return Response(answer, status, media_type="application/json")
        if self.trouble.refuse is not None:
            raise RefusalError(
                self.trouble.refuse.status, self.trouble.refuse.type, self.trouble.refuse.detail
            )
        if self.frozen and not thaws:
            raise RefusalError(423, "frozen", self.freeze_reason)
        if request.headers[IF_MATCH] != self.etag:
            raise RefusalError(412, "precondition-failed", "stale If-Match", current=self.etag)
        result = act(raw)
        if not result.dry_run:
            self.epoch_seen = max(self.epoch_seen, epoch)
            self.answers[key] = (digest, 200, result.model_dump_json())
            self.mutations.append(
                Applied(key, request.url.path, epoch, result.observed_generation, self.config)
            )
        if self.trouble.lose_answer:
            self.trouble.lose_answer = False
            return Response(status_code=502)
        return Response(
            result.model_dump_json(), media_type="application/json", headers={ETAG: result.etag}
        )

    def guard_headers(self, request: Request) -> tuple[int, str]:
        for name in (IF_MATCH, FENCING_EPOCH, IDEMPOTENCY_KEY):
            if name not in request.headers:
                raise RefusalError(428, "precondition-required", f"{name} is absent")
        epoch = int(request.headers[FENCING_EPOCH])
        if 0 < epoch < self.epoch_seen:
            raise RefusalError(
                409, "stale-epoch", f"epoch {epoch} is stale", current=self.epoch_seen
            )
        return epoch, request.headers[IDEMPOTENCY_KEY]

    # HTTP --------------------------------------------------------------------------------------

    def app(self) -> FastAPI:
        """The ASGI application."""
        app = FastAPI()
        prefix = "/admin/v1"

        @app.middleware("http")
        async def gate(request: Request, call_next: Any) -> Response:
            self.requests.append((request.method, request.url.path, dict(request.headers)))
            if self.trouble.down:
                return Response(status_code=502)
            if request.headers.get("authorization") != f"Bearer {self.token}":
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
            return answer(self.state(), ETag=self.etag)

        @app.put(f"{prefix}/config")
        async def put_config(request: Request, *, dry_run: bool = False) -> Response:
            return await self.mutate(request, lambda raw: self.put_config(raw, dry_run=dry_run))

        @app.get(f"{prefix}/config/history")
        async def get_history() -> Response:
            return answer(ConfigHistory(documents=tuple(self.documents)))

        @app.get(f"{prefix}/router-bias")
        async def get_biases() -> Response:
            return answer(self.bias_list())

        @app.get(f"{prefix}/router-bias/{{bias_hash}}")
        async def get_bias(bias_hash: str) -> Response:
            if bias_hash not in self.biases:
                raise RefusalError(404, "not-found", f"bias {bias_hash} is not stored")
            return Response(
                save_tensors({"bias": self.biases[bias_hash]}),
                media_type="application/octet-stream",
            )

        @app.put(f"{prefix}/router-bias/{{bias_hash}}")
        async def put_bias(request: Request, bias_hash: str) -> Response:
            def store(raw: bytes) -> MutationResult:
                stored = self.store_bias(load_tensors(raw)["bias"], BiasOrigin.UPLOAD)
                if stored != bias_hash:
                    raise RefusalError(422, "bad-request", f"the body's hash is {stored}")
                return self.result()

            return await self.mutate(request, store)

        posts: dict[str, Callable[[bytes], MutationResult]] = {
            "config/rollback": self.roll_back,
            "router-bias/rollback": self.roll_bias_back,
            "router-bias/mark-good": self.mark_good,
            "freeze": self.freeze,
        }
        for path, act in posts.items():
            self._post(app, f"{prefix}/{path}", act)

        @app.delete(f"{prefix}/freeze")
        async def unfreeze(request: Request) -> Response:
            return await self.mutate(request, self.unfreeze, thaws=True)

        @app.post(f"{prefix}/router/what-if")
        async def what_if(request: Request) -> Response:
            wanted = WhatIfRequest.model_validate_json(await request.body())
            if wanted.bias_hash is not None and wanted.bias_hash not in self.biases:
                raise RefusalError(404, "not-found", f"bias {wanted.bias_hash} is not stored")
            return answer(self.what_if())

        @app.post(f"{prefix}/probe")
        async def probe() -> Response:
            return answer(
                ProbeResult(
                    negative_log_likelihood=1.25, tokens=64, generation=self.document.generation,
                    bias_hash=self.live_bias,
                )
            )  # fmt: skip

        @app.get(f"{prefix}/capabilities")
        async def capabilities() -> Response:
            return answer(self.capabilities())

        return app

    def _post(self, app: FastAPI, path: str, act: Callable[[bytes], MutationResult]) -> None:
        async def route(request: Request) -> Response:
            return await self.mutate(request, act)

        app.post(path)(route)

    def what_if(self) -> WhatIfResponse:
        drifted = self.live_bias != self.last_known_good

        def side(tau: float) -> WhatIfSide:
            return WhatIfSide(
                tau=(tau,) * LAYERS, tau_standard_error=(0.01,) * LAYERS,
                overflow_ratio=(tau / 10,) * LAYERS, overflow_ratio_total=tau / 10,
                max_over_mean=(1 + tau,) * LAYERS,
            )  # fmt: skip

        return WhatIfResponse(
            sampled_steps=16, sampled_tokens=4096, live=side(0.9 if drifted else 0.1),
            counterfactual=side(0.1), sufficient=True,
        )  # fmt: skip

    def capabilities(self) -> Capabilities:
        return Capabilities(
            contract_version="1.0", engine_id=self.engine_id, group=self.group, model="tiny",
            role="mixed", simulated=True, ranks=1, moe_layers=LAYERS, experts=EXPERTS, top_k=2,
            context_tokens=128,
            knobs=tuple(KnobCapability(knob=knob, support=KnobSupport.LIVE) for knob in KNOBS),
        )  # fmt: skip


def as_json(model: BaseModel) -> Any:
    """The JSON value of a contract body."""
    return json.loads(model.model_dump_json())
