"""The engine's own HTTP server around the echo core, as one ASGI application that starts itself."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

from contract.runtime_config import RuntimeConfig
from engine.config import EngineConfig
from engine.server.app import AppParts, create_app
from engine.server.auth import TokenBook
from engine.server.readiness import Readiness
from engine.server.recovery import open_governor, start
from engine.server.tokenizer import ByteTokenizer
from engine.server.tokens import Role
from tests.support.echo_core import EchoCore
from tests.support.echo_engine import RECORDS, TOKENS, ManualClock

ADMIN_TOKEN = TOKENS[Role.ADMIN]


class HostedEcho:
    """Opens the engine's state in the server's own event loop, at start-up."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._app: Any = None
        self._running: AbstractAsyncContextManager[None] | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "lifespan":
            await self._app(scope, receive, send)
            return
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                self._running = self._run()
                await self._running.__aenter__()
                await send({"type": "lifespan.startup.complete"})
            else:
                if self._running is not None:
                    await self._running.__aexit__(None, None, None)
                await send({"type": "lifespan.shutdown.complete"})
                return

    @asynccontextmanager
    async def _run(self) -> AsyncIterator[None]:
        core = EchoCore()
        governor = open_governor(core, self._folder, ranks=2, clock=ManualClock())
        await start(governor, RuntimeConfig())
        readiness = Readiness()
        readiness.watch(core.failed)
        readiness.ready()
        self._app = create_app(
            AppParts(
                config=EngineConfig(), governor=governor, tokens=TokenBook(None, RECORDS),
                tokenizer=ByteTokenizer(), metrics=lambda: (b"", "text/plain"),
                readiness=readiness, faults=None,
            )
        )  # fmt: skip
        yield
        await governor.close()
