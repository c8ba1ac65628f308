"""Many simulated engines in one process: one listener, one clock, a telemetry sender each.

Every engine has the routes, tokens, state folder and governor of the real server, mounted under
`/engines/<id>`. One thread advances them in turn, spread over the second, so that the load is even.
"""

import asyncio
import contextlib
import logging
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import uvicorn
from fastapi import FastAPI

from contract.keep_alive import SERVER_KEEP_ALIVE_SECONDS
from contract.listening import is_loopback
from contract.request_head import BoundedHead
from engine.config import EngineConfig
from engine.errors import EngineError, StateError
from engine.server.app import AppParts, create_app
from engine.server.auth import TokenBook
from engine.server.bias_changes import snapshot_live
from engine.server.clock import SystemClock
from engine.server.governor import Governor
from engine.server.readiness import Readiness
from engine.server.recovery import open_governor, start
from engine.server.tokenizer import ByteTokenizer
from engine.server.tokens import Role, TokenRecord, token_hash
from engine.simulation.core import SimulatedCore
from engine.simulation.engine import SimulatedEngine
from engine.simulation.exposition import CONTENT_TYPE, exposition
from engine.simulation.run import ScenarioRun
from engine.simulation.scenario import Scenario
from engine.simulation.settings import SimulationSettings
from engine.telemetry.exporter import FrameExporter

LEASE_SECONDS = 0.5
SNAPSHOT_SECONDS = 60.0
FLUSH_SECONDS = 1.0
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Member:
    """One engine of a fleet: what it is, and the tokens between it and the control plane."""

    settings: SimulationSettings
    admin_token: str
    telemetry_token: str


@dataclass(frozen=True, slots=True)
class FleetOptions:
    """How a fleet runs.

    Attributes:
        scenario: its timeline applies to the engines in `affected`; the others are healthy.
        speed: scenario seconds a real second; frames are of real seconds always.
        telemetry_url: the control plane, None sends nothing.
        state_dir: a folder an engine. host, port: of the listener.
    """

    scenario: Scenario
    state_dir: Path
    affected: frozenset[str]
    speed: float = 1.0
    telemetry_url: str | None = None
    host: str = "127.0.0.1"
    port: int = 8200
    tick_seconds: float = 1.0


@dataclass
class Hosted:
    """A member that runs."""

    run: ScenarioRun
    core: SimulatedCore
    governor: Governor
    exporter: FrameExporter | None

    def tick(self, seconds: float, started_unix: float, speed: float) -> None:
        """Advance between two commits, and hand the frames over."""
        with self.core.lock:
            frames = self.run.tick(seconds, started_unix, speed=speed)
        if self.exporter is not None:
            for frame in frames:
                self.exporter.submit(frame)


class Fleet:
    """Runs until it is stopped."""

    def __init__(self, members: Sequence[Member], options: FleetOptions) -> None:
        self._members = members
        self._options = options
        self.hosted: list[Hosted] = []
        self._stopping = threading.Event()
        self.late_ticks = 0

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[FastAPI]:
        """The application, with every engine started and ticking; all of it ends on leaving."""
        app = FastAPI(title="Simulated fleet", docs_url=None, redoc_url=None, openapi_url=None)
        async with contextlib.AsyncExitStack() as stack:
            for member in self._members:
                hosted, routes = await self._host(member, stack)
                self.hosted.append(hosted)
                app.mount(f"/engines/{member.settings.engine_id}", routes)
            ticking = asyncio.create_task(asyncio.to_thread(self._tick_all))
            ticking.add_done_callback(lambda _: self.stop())
            tending = asyncio.create_task(self._tend())
            try:
                yield app
            finally:
                self._stopping.set()
                await asyncio.gather(ticking, tending)
                for each in self.hosted:  # all at once: `stop` waits for one after the other
                    if each.exporter is not None:
                        each.exporter.wind_up(FLUSH_SECONDS)

    def stop(self) -> None:
        """End the ticks."""
        self._stopping.set()

    @property
    def stopped(self) -> bool:
        """Whether the ticks have ended, or were told to."""
        return self._stopping.is_set()

    def counts(self) -> dict[str, int]:
        """Frames by outcome, over the fleet."""
        totals: dict[str, int] = {"late": self.late_ticks}
        for each in self.hosted:
            for name, count in (each.exporter.counts if each.exporter else {}).items():
                totals[name] = totals.get(name, 0) + count
        return totals

    async def _host(
        self, member: Member, stack: contextlib.AsyncExitStack
    ) -> tuple[Hosted, FastAPI]:
        settings, options = member.settings, self._options
        core = SimulatedCore(SimulatedEngine(settings))
        folder = options.state_dir / settings.engine_id
        folder.mkdir(parents=True, exist_ok=True)
        ranks = settings.layout.ranks
        governor = open_governor(core, folder, ranks=ranks, clock=SystemClock())
        stack.push_async_callback(governor.close)
        await start(governor, settings.runtime)
        exporter = self._exporter(member)
        if exporter is not None:
            exporter.start()
            stack.callback(exporter.stop)
        affected = settings.engine_id in options.affected
        healthy = options.scenario.model_copy(update={"events": ()})
        run = ScenarioRun(options.scenario if affected else healthy, core.engine)
        readiness = Readiness()
        readiness.ready()
        record = TokenRecord(
            name="control-plane", role=Role.ADMIN, sha256=token_hash(member.admin_token)
        )
        routes = create_app(
            AppParts(
                config=EngineConfig(
                    engine_id=settings.engine_id, group=settings.group, role=settings.role,
                    ranks=ranks, context_tokens=core.model.context_tokens,
                ),
                governor=governor, tokens=TokenBook(None, (record,)), tokenizer=ByteTokenizer(),
                metrics=lambda: (exposition(run), CONTENT_TYPE), readiness=readiness,
                open_metrics=is_loopback(options.host), simulated=True,
            )
        )  # fmt: skip
        return Hosted(run, core, governor, exporter), routes

    def _exporter(self, member: Member) -> FrameExporter | None:
        url = self._options.telemetry_url
        if url is None:
            return None
        settings = member.settings
        return FrameExporter(
            url, member.telemetry_token, engine_id=settings.engine_id, boot_id=settings.boot
        )

    def _tick_all(self) -> None:
        """One engine after the other, evenly over the tick; a late tick is not made up for."""
        options = self._options
        slot = options.tick_seconds / max(1, len(self.hosted))
        due = time.monotonic()
        while not self._stopping.is_set():
            for each in self.hosted:
                due += slot
                wait = due - time.monotonic()
                if wait > 0 and self._stopping.wait(wait):
                    return
                if wait < -options.tick_seconds:
                    self.late_ticks += 1
                    due = time.monotonic()
                started = SystemClock().now() - options.tick_seconds
                each.tick(options.tick_seconds, started, options.speed)

    async def _tend(self) -> None:
        """Leases expire, moving biases are stored, as on the real server."""
        beats = round(SNAPSHOT_SECONDS / LEASE_SECONDS)
        beat = 0
        while not self._stopping.is_set():
            beat += 1
            for each in self.hosted:
                try:
                    if each.governor.live.leases:
                        await each.governor.expire_leases()
                    if beat % beats == 0:
                        async with each.governor.lock:
                            await snapshot_live(each.governor.live, "live, once a minute")
                except EngineError as error:
                    _log.warning("%s", error)
            await asyncio.sleep(LEASE_SECONDS)


async def serve_fleet(fleet: Fleet, options: FleetOptions, announce: Callable[[str], None]) -> None:
    """Serve until SIGINT or SIGTERM (uvicorn's own handlers).

    Raises:
        StateError: the address cannot be listened on.
    """
    try:
        listener = socket.create_server((options.host, options.port), backlog=2048)
    except OSError as error:
        raise StateError(
            f"cannot listen on {options.host}:{options.port}: {error.strerror}", field="port",
            value=options.port,
        ) from None  # fmt: skip
    async with fleet.running() as app:
        announce(f"http://{options.host}:{listener.getsockname()[1]}")
        config = uvicorn.Config(
            app, log_config=None, access_log=False, server_header=False, lifespan="off",
            timeout_graceful_shutdown=2, timeout_keep_alive=SERVER_KEEP_ALIVE_SECONDS,
            http=BoundedHead,
        )  # fmt: skip
        await uvicorn.Server(config).serve(sockets=[listener])
