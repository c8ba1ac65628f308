"""The HTTP application of one engine, composed of its parts. No state of its own."""

from collections.abc import Callable
from dataclasses import dataclass

from fastapi import APIRouter, Depends, FastAPI
from fastapi.params import Depends as DependsParam

from engine.config import EngineConfig
from engine.server.admin.bias_routes import bias_routes
from engine.server.admin.config_routes import config_routes
from engine.server.admin.engine_routes import engine_routes
from engine.server.admin.fault_routes import fault_routes
from engine.server.auth import TokenBook, require
from engine.server.bodies import BodyLimit
from engine.server.completions import completion_routes
from engine.server.core import FaultControl
from engine.server.governor import Governor
from engine.server.health import health_routes, metrics_routes
from engine.server.problems import install_problem_handlers
from engine.server.readiness import Readiness
from engine.server.tokenizer import Tokenizer
from engine.server.tokens import Role

MAX_BODY_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class AppParts:
    """What an application is made of.

    Attributes:
        config: the engine's start-up config.
        governor: the governed state and the core behind it.
        tokens: who may call.
        tokenizer: text to ids and back.
        metrics: the exposition of `/metrics` and its content type.
        readiness: whether requests are taken.
        faults: None leaves the fault routes out.
        simulated: said by `GET capabilities`.
        open_inference: `/v1` without a token.
        open_metrics: `/metrics` without a token.
        max_body_bytes: a longer body is answered 413.
    """

    config: EngineConfig
    governor: Governor
    tokens: TokenBook
    tokenizer: Tokenizer
    metrics: Callable[[], tuple[bytes, str]]
    readiness: Readiness
    faults: FaultControl | None = None
    simulated: bool = False
    open_inference: bool = False
    open_metrics: bool = False
    max_body_bytes: int = MAX_BODY_BYTES


def create_app(parts: AppParts) -> FastAPI:
    """The application; it neither starts nor stops its parts."""
    app = FastAPI(title="Trimtab engine", docs_url=None, redoc_url=None, openapi_url=None)
    install_problem_handlers(app)
    app.add_middleware(BodyLimit, max_bytes=parts.max_body_bytes)
    governor, book = parts.governor, parts.tokens
    completions = completion_routes(
        governor.live.core, parts.tokenizer, parts.readiness, governor.live.clock
    )
    app.include_router(completions, dependencies=_role(book, Role.INFERENCE, parts.open_inference))
    metrics = metrics_routes(parts.metrics)
    app.include_router(metrics, dependencies=_role(book, Role.VIEWER, parts.open_metrics))
    app.include_router(health_routes(parts.readiness))
    for router in _admin_routers(parts):
        app.include_router(router)
    return app


def _admin_routers(parts: AppParts) -> tuple[APIRouter, ...]:
    governor, book = parts.governor, parts.tokens
    faults = () if parts.faults is None else (fault_routes(governor, book, parts.faults),)
    return (
        *config_routes(governor, book),
        *bias_routes(governor, book),
        *engine_routes(governor, book, parts.config, simulated=parts.simulated),
        *faults,
    )


def _role(book: TokenBook, role: Role, is_open: bool) -> list[DependsParam]:
    return [] if is_open else [Depends(require(book, role))]
