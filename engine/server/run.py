"""Serving until told to stop: HTTP, lease expiry, bias snapshots, and the end on a failed rank."""

import asyncio
import contextlib
import gc
import logging
import signal
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass

import uvicorn
from fastapi import FastAPI

from contract.keep_alive import SERVER_KEEP_ALIVE_SECONDS
from contract.request_head import BoundedHead
from engine.errors import EngineError, StateError
from engine.server.app import AppParts, create_app
from engine.server.auth import TokenBook
from engine.server.bias_changes import snapshot_live
from engine.server.clock import SystemClock
from engine.server.core import EngineCore, FaultControl
from engine.server.durable import FolderLock
from engine.server.governor import Governor
from engine.server.readiness import Readiness
from engine.server.recovery import open_governor, start
from engine.server.settings import EngineSettings
from engine.server.tokenizer import Tokenizer

LEASE_TICK_SECONDS = 0.5
SNAPSHOT_SECONDS = 60.0
FAILURE_LINGER_SECONDS = 1.0
"""How long `/readyz` still says why after a rank has failed, before the engine ends."""
_GRACE_SECONDS = 5

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Outside:
    """What the server needs beside the core: who may call, text, series, faults.

    Attributes:
        tokens: who may call.
        tokenizer: text to ids and back.
        metrics: the exposition of `/metrics` and its content type.
        faults: None leaves the fault routes out.
        simulated: said by `GET capabilities`.
    """

    tokens: TokenBook
    tokenizer: Tokenizer
    metrics: Callable[[], tuple[bytes, str]]
    faults: FaultControl | None = None
    simulated: bool = False


async def run_engine(
    core: EngineCore, settings: EngineSettings, outside: Outside, announce: Callable[[str], None]
) -> BaseException | None:
    """Recover the state folder and serve a started core; see `serve` for the result.

    Raises:
        StateError: the state folder, the address or the TLS files cannot be used.
    """
    settings.state_dir.mkdir(parents=True, exist_ok=True)
    with contextlib.closing(FolderLock(settings.state_dir)):
        governor = open_governor(
            core, settings.state_dir, ranks=settings.ranks, clock=SystemClock()
        )
        try:
            await start(governor, settings.runtime)
            return await _serve_governed(governor, settings, outside, announce)
        finally:
            await governor.close()


async def _serve_governed(
    governor: Governor, settings: EngineSettings, outside: Outside, announce: Callable[[str], None]
) -> BaseException | None:
    readiness = Readiness()
    app = create_app(
        AppParts(
            config=settings.engine_config(), governor=governor, tokens=outside.tokens,
            tokenizer=outside.tokenizer, metrics=outside.metrics, readiness=readiness,
            faults=outside.faults, simulated=outside.simulated,
            open_inference=settings.open_inference, open_metrics=settings.metrics_are_open,
            max_body_bytes=settings.max_body_bytes,
        )
    )  # fmt: skip
    what = f"engine {settings.engine_id} serves {governor.live.core.model.name}"
    return await serve(
        Serving(app, governor, readiness), settings,
        lambda url: announce(f"{what} on {url} ({settings.ranks} ranks)"),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Serving:
    """What is served: the application, and what runs beside it."""

    app: FastAPI
    governor: Governor
    readiness: Readiness


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers (ours stop the engine in order), and a word when up."""

    def __init__(self, config: uvicorn.Config, on_started: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_started = on_started

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_started()

    def stop(self) -> None:
        self.should_exit = True


async def serve(
    serving: Serving, settings: EngineSettings, announce: Callable[[str], None]
) -> BaseException | None:
    """Serve until SIGINT, SIGTERM, or a failed rank; `announce` gets the URL once it is ready.

    Returns:
        The failure of a rank, or None after a clean stop.

    Raises:
        StateError: the address cannot be listened on, or the TLS files cannot be used.
    """
    config = _uvicorn_config(serving.app, settings)
    listener = _listen(settings)
    url = settings.model_copy(update={"port": listener.getsockname()[1]}).url

    def started() -> None:
        gc.freeze()  # a full collection would walk the libraries too, while steps wait for it
        serving.readiness.ready()
        announce(url)

    server = _Server(config, started)
    failed = serving.governor.live.core.failed
    serving.readiness.watch(failed)
    loop = asyncio.get_running_loop()
    failed.add_done_callback(lambda _: loop.call_later(FAILURE_LINGER_SECONDS, server.stop))
    async with _signals(server.stop), _periodic(serving.governor):
        await server.serve(sockets=[listener])
    serving.readiness.stopping()
    return serving.readiness.failure


def _uvicorn_config(app: FastAPI, settings: EngineSettings) -> uvicorn.Config:
    config = uvicorn.Config(
        app, log_config=None, access_log=False, server_header=False, lifespan="off",
        timeout_graceful_shutdown=_GRACE_SECONDS, timeout_keep_alive=SERVER_KEEP_ALIVE_SECONDS,
        http=BoundedHead,
        ssl_certfile=settings.tls_certificate, ssl_keyfile=settings.tls_key,
    )  # fmt: skip
    try:
        config.load()
    except (OSError, ssl.SSLError) as error:
        raise StateError(f"TLS files cannot be used: {error}", field="tls_certificate") from None
    return config


def _listen(settings: EngineSettings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        return socket.create_server((settings.host, settings.port), family=family, backlog=2048)
    except OSError as error:
        raise StateError(
            f"cannot listen on {settings.host}:{settings.port}: {error.strerror}",
            field="port", value=settings.port,
        ) from None  # fmt: skip


@contextlib.asynccontextmanager
async def _signals(stop: Callable[[], None]) -> AsyncIterator[None]:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    try:
        yield
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


@contextlib.asynccontextmanager
async def _periodic(governor: Governor) -> AsyncIterator[None]:
    async def snapshot() -> None:
        async with governor.lock:
            await snapshot_live(governor.live, "live, once a minute")

    async def expire() -> None:
        await governor.expire_leases()

    stopping = asyncio.Event()
    tasks = [
        asyncio.create_task(_every(LEASE_TICK_SECONDS, expire, stopping)),
        asyncio.create_task(_every(SNAPSHOT_SECONDS, snapshot, stopping)),
    ]
    try:
        yield
    finally:
        stopping.set()  # not cancelled: what has begun ends whole
        await asyncio.gather(*tasks)


async def _every(
    seconds: float, act: Callable[[], Awaitable[None]], stopping: asyncio.Event
) -> None:
    while not stopping.is_set():
        try:
            await act()
        except EngineError as error:
            _log.warning("%s", error)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stopping.wait(), seconds)
