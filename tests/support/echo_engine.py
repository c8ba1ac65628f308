"""An engine's HTTP application around the echo core, driven in process."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from contract.admin import Cause, CauseKind, ConfigState
from contract.runtime_config import RuntimeConfig
from engine.config import EngineConfig
from engine.server.app import AppParts, create_app
from engine.server.auth import TokenBook
from engine.server.core import FaultControl
from engine.server.database import Database
from engine.server.governor import Governor
from engine.server.readiness import Readiness
from engine.server.recovery import open_governor, start
from engine.server.tokenizer import ByteTokenizer
from engine.server.tokens import Role, TokenRecord, token_hash
from tests.support.echo_core import EchoCore

TOKENS = {role: f"token-of-{role}" for role in Role}
RECORDS = tuple(
    TokenRecord(name=str(role), role=role, sha256=token_hash(token))
    for role, token in TOKENS.items()
)
CAUSE = Cause(kind=CauseKind.OPERATOR, actor="test")
CAUSE_BODY = CAUSE.model_dump(mode="json")


class ManualClock:
    """Moves when told."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> float:
        return 1_700_000_000.0 + self.seconds

    def monotonic(self) -> float:
        return self.seconds

    def advance(self, seconds: float) -> None:
        self.seconds += seconds


@dataclass
class EchoEngine:
    """What a test holds."""

    core: EchoCore
    governor: Governor
    clock: ManualClock
    client: httpx.AsyncClient
    readiness: Readiness

    async def state(self) -> ConfigState:
        answer = await self.client.get("/admin/v1/config", headers=bearer(Role.VIEWER))
        return ConfigState.model_validate_json(answer.content)

    async def guard(self, **replaced: str) -> dict[str, str]:
        """Headers that a mutation needs now; a value of "" leaves a header out."""
        state = await self.state()
        headers = {
            "If-Match": state.etag,
            "X-Fencing-Epoch": "0",
            "Idempotency-Key": uuid.uuid4().hex,
            "Authorization": f"Bearer {TOKENS[Role.ADMIN]}",
        } | {name.replace("_", "-"): value for name, value in replaced.items()}
        return {name: value for name, value in headers.items() if value}

    async def mutate(
        self, method: str, path: str, body: Any = None, **headers: str
    ) -> httpx.Response:
        guard = await self.guard(**headers)
        return await self.client.request(method, f"/admin/v1/{path}", json=body, headers=guard)

    async def put_config(
        self, lease: dict[str, float] | None = None, **knobs: Any
    ) -> httpx.Response:
        config = (await self.state()).document.config.model_dump(mode="json") | knobs
        body = {"config": config, "cause": CAUSE_BODY}
        return await self.mutate("PUT", "config", body | {"lease_seconds": lease or {}})

    async def get(self, path: str, role: Role = Role.VIEWER) -> httpx.Response:
        return await self.client.get(f"/admin/v1/{path}", headers=bearer(role))


def bearer(role: Role) -> dict[str, str]:
    return {"Authorization": f"Bearer {TOKENS[role]}"}


@asynccontextmanager
async def echo_engine(
    folder: Path,
    *,
    core: EchoCore | None = None,
    clock: ManualClock | None = None,
    database: Database | None = None,
    faults: FaultControl | None = None,
    initial: RuntimeConfig | None = None,
    **parts: Any,
) -> AsyncIterator[EchoEngine]:
    """An engine that has recovered its state folder and takes requests."""
    core = core or EchoCore()
    clock = clock or ManualClock()
    governor = open_governor(core, folder, ranks=2, clock=clock, database=database)
    await start(governor, initial or RuntimeConfig())
    readiness = Readiness()
    readiness.watch(core.failed)
    readiness.ready()
    app = create_app(
        AppParts(
            config=EngineConfig(), governor=governor, tokens=TokenBook(None, RECORDS),
            tokenizer=ByteTokenizer(), metrics=lambda: (b"moe_up 1\n", "text/plain"),
            readiness=readiness, faults=faults, **parts,
        )
    )  # fmt: skip
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://engine") as client:
        yield EchoEngine(core, governor, clock, client, readiness)
    await governor.close()
    await asyncio.sleep(0)
