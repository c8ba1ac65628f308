"""The control plane as one ASGI application: `create_app(settings)`.

To add routes: write `controlplane/<package>/routes.py` with a module-level `router`, and add it to
`ROUTERS`. To add something that runs: build it in `Plane`, put it on `app.state` under a name, and
start and stop it in `_lifespan`. Routes take what they need from `app.state` by a dependency:
`plane` (all of the below), `access`, `engines`, `history`, `intake`, `probes`, `database`,
`governor`, `governance`.
"""

import logging
import secrets
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from fastapi import APIRouter, FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

import controlplane.actuator.routes
import controlplane.audit.routes
import controlplane.auth.routes
import controlplane.history.routes
import controlplane.ingest.routes
import controlplane.probes
import controlplane.scheduling.routes
import controlplane.web.router
from contract import CONTRACT_VERSION
from contract.headers import LOGS_PATH, RETRY_AFTER
from contract.problem import PROBLEM_MEDIA_TYPE, Problem
from controlplane.audit import access_changes
from controlplane.audit.denials import audit_denials
from controlplane.auth.access import Access
from controlplane.auth.engines import EngineRegistry
from controlplane.auth.roles import Role
from controlplane.auth.sessions import SessionStore
from controlplane.auth.tokens import TokenStore
from controlplane.clock import Clock, SystemClock
from controlplane.db.database import Database, open_database
from controlplane.errors import OverloadedError, StorageError, TrimtabError
from controlplane.history.history import History
from controlplane.history.ring import ReceivedFrame
from controlplane.history.upkeep import Job, Upkeep, jobs
from controlplane.ingest.intake import Intake
from controlplane.ingest.routes import receive_logs
from controlplane.ingest.writer import FrameWriter
from controlplane.metrics import Instruments
from controlplane.probes import Probes
from controlplane.scheduling.governor import Governor
from controlplane.scheduling.jobs import leader_jobs
from controlplane.scraping.scraper import Scraper, observed_engines, scrape_jobs
from controlplane.settings import Settings
from controlplane.web.error_pages import error_page, wants_page

LOGGER = logging.getLogger(__name__)
CLIENT_CLOSED_REQUEST = 499
"""nginx's number. Nobody reads it: the client is gone."""
MAX_BODY_BYTES = 4 * 1024 * 1024
"""Of any request but one with frames, which has bounds of its own; more is answered 413."""

ROUTERS: tuple[APIRouter, ...] = (
    controlplane.probes.router,
    controlplane.ingest.routes.router,
    controlplane.history.routes.router,
    controlplane.auth.routes.router,
    controlplane.audit.routes.router,
    controlplane.actuator.routes.router,
    controlplane.scheduling.routes.router,
    controlplane.web.router.router,
)


class Plane:
    """Everything that one control-plane process is made of, wired together once."""

    def __init__(
        self, settings: Settings, *, clock: Clock | None = None, database: Database | None = None
    ) -> None:
        self.settings = settings
        self.clock = clock or SystemClock()
        self.database = database or open_database(settings.database_url)
        self.instruments = Instruments()
        self.access = Access(
            tokens=TokenStore(self.database, self.clock, access_changes.record),
            sessions=SessionStore(
                self.database, self.clock, access_changes.record,
                link_seconds=settings.auth.login_link_seconds,
                session_seconds=settings.auth.session_hours * 3600,
            ),
            secure_cookies=settings.tls,
        )  # fmt: skip
        self.engines = EngineRegistry(
            self.database, self.clock, settings.engines, access_changes.record
        )
        self.history = History(self.database, settings.history, self.clock)
        self.writer = FrameWriter(self.history, settings.ingest, self.clock, self.instruments)
        failures = self.instruments.counter("trimtab_job_failures_total")
        self.upkeep = Upkeep(
            self.history, self.writer.is_catching_up, lambda job: failures.labels(job).inc()
        )
        self.intake = Intake(settings.ingest, self.writer, self.instruments)
        self.scraper = Scraper(
            observed_engines(settings.engines), self._store, self.clock, self.instruments,
            settings.scrape,
        )  # fmt: skip
        self.governor = Governor(
            self.database, self.clock, self.history, self.engines, self.instruments,
            settings.governor, holder=f"{socket.gethostname()}:{secrets.token_hex(4)}",
            more_jobs=leader_jobs((*jobs(self.upkeep), *self._scrape_jobs())),
            why_unread=self.scraper.failure,
        )  # fmt: skip
        self.governance = self.governor.governance
        self.access.on_denied.append(audit_denials(self.database, self.clock))
        self.probes = Probes(self.database, self.writer, self.instruments)

    def start(self) -> None:
        """Bring the registry and the tokens up to the settings, and start what runs.

        Raises:
            InvalidInputError: a setting names a policy that does not exist.
            StorageError: the database does not answer, or its schema is missing.
        """
        self.governor.check()
        self.engines.sync()
        self._ensure_tokens()
        self.writer.start()
        self.governor.start()

    def stop(self) -> None:
        """Stop acting, store what waits, stop what runs, close the database."""
        self.governor.stop()
        self.intake.close()
        self.writer.stop()
        self.database.close()

    def _store(self, frames: Sequence[ReceivedFrame]) -> None:
        """Through the one writer, like every frame: durable when this returns."""
        stored = self.writer.submit(frames)
        self.writer.flush()
        stored.result()

    def _scrape_jobs(self) -> list[Job]:
        return scrape_jobs(self.scraper, self.settings.scrape)

    def _ensure_tokens(self) -> None:
        auth = self.settings.auth
        tokens = self.access.tokens
        for name, role, secret in (
            ("settings:admin", Role.ADMIN, auth.admin_token),
            ("settings:alertmanager", Role.ALERTMANAGER, auth.alertmanager_token),
        ):
            if secret.get_secret_value():
                tokens.ensure(name, role, secret.get_secret_value())
        for engine in self.settings.engines:
            secret = engine.telemetry_token
            if secret.get_secret_value():
                tokens.ensure(
                    f"settings:engine:{engine.id}"[:128], Role.ENGINE, secret.get_secret_value(),
                    engine_id=engine.id,
                )  # fmt: skip


class ControlPlane(FastAPI):
    """The application; frames are taken in before the framework's layers.

    A fleet posts frames all the time and everything else now and then: routing, dependencies and
    limits of body size cost the framework as much as all that is done with a frame. Headers that
    protect a browser are left out: no browser posts frames.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] == "http" and scope["path"] == LOGS_PATH and scope["method"] == "POST":
            scope["app"] = self
            await _take_frames(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)


async def _take_frames(scope: Scope, receive: Receive, send: Send) -> None:
    request = Request(scope, receive)
    try:
        response = await receive_logs(request)
    except TrimtabError as error:
        response = await _on_error(request, error)
    except ClientDisconnect as error:
        response = await _on_gone(request, error)
    except Exception as error:
        LOGGER.exception("taking in frames failed")
        response = await _on_unforeseen(request, error)
    await response(scope, receive, send)


def create_app(
    settings: Settings, *, clock: Clock | None = None, database: Database | None = None
) -> FastAPI:
    """The application. The database's schema must be at the newest revision already."""
    plane = Plane(settings, clock=clock, database=database)
    app = ControlPlane(
        title="Trimtab control plane", version=CONTRACT_VERSION, lifespan=_lifespan,
        docs_url=None, redoc_url=None, openapi_url="/api/openapi.json",
        max_body_size=MAX_BODY_BYTES,
    )  # fmt: skip
    app.state.plane = plane
    app.state.access = plane.access
    app.state.engines = plane.engines
    app.state.history = plane.history
    app.state.intake = plane.intake
    app.state.probes = plane.probes
    app.state.database = plane.database
    app.state.governor = plane.governor
    app.state.governance = plane.governance
    app.add_exception_handler(TrimtabError, _on_error)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(HTTPException, _on_http)
    app.add_exception_handler(ClientDisconnect, _on_gone)
    app.add_exception_handler(Exception, _on_unforeseen)
    controlplane.web.router.install(app)
    for router in ROUTERS:
        app.include_router(router)
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    plane: Plane = app.state.plane
    await run_in_threadpool(plane.start)
    try:
        yield
    finally:
        await run_in_threadpool(plane.stop)


async def _on_error(request: Request, error: Exception) -> Response:
    if not isinstance(error, TrimtabError):
        raise error
    headers = {}
    if isinstance(error, OverloadedError | StorageError):
        headers[RETRY_AFTER] = str(max(1, round(error.retry_after_seconds)))
    return await _answer(request, error.problem(), headers)


async def _on_gone(_request: Request, _error: Exception) -> Response:
    """A client that went away in its upload is no fault of this program: no word of it."""
    return Response(status_code=CLIENT_CLOSED_REQUEST)


async def _on_unforeseen(request: Request, _error: Exception) -> Response:
    """A fault of this program: the server logs it, the caller is told where to look."""
    problem = Problem(
        type="internal", title="Internal error", status=500,
        detail="the control plane met an unexpected error; its log has the details",
    )  # fmt: skip
    return await _answer(request, problem, {})


async def _on_invalid(request: Request, error: Exception) -> Response:
    if not isinstance(error, RequestValidationError):
        raise error
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"][1:]) or str(first["loc"][0])
    context = first.get("ctx") or {}
    # A validator of ours puts its exception there, which no JSON holds; `msg` has its words.
    bound = {name: value for name, value in context.items() if not isinstance(value, Exception)}
    problem = Problem(
        type="invalid-input", title="Invalid input", status=422,
        detail=f"{where}: {first['msg'].removeprefix('Value error, ')}", field=where,
        bound=bound or None,
    )  # fmt: skip
    return await _answer(request, problem, {})


async def _on_http(request: Request, error: Exception) -> Response:
    """What the framework refuses by itself: unknown paths and methods."""
    if not isinstance(error, HTTPException):
        raise error
    problem = Problem(
        type=error.detail.lower().replace(" ", "-"), title=error.detail, status=error.status_code,
        detail=f"{request.method} {request.url.path}: {error.detail}",
    )  # fmt: skip
    return await _answer(request, problem, dict(error.headers or {}))


async def _answer(request: Request, problem: Problem, headers: dict[str, str]) -> Response:
    """A page for a person, problem details for a program."""
    if wants_page(request):
        return await error_page(request, problem, headers)
    return JSONResponse(
        problem.model_dump(mode="json", exclude_none=True), problem.status, headers=headers,
        media_type=PROBLEM_MEDIA_TYPE,
    )  # fmt: skip
