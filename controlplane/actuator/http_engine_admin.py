"""`EngineAdmin` over HTTP.

Only what met a pooled connection gone stale is sent once more, on a fresh one: a read changes
nothing, and a change that did arrive is answered by its idempotency key, before its ETag is looked
at. Any other broken connection, a time-out or an answer that a proxy made up (5xx without problem
details) leaves the outcome unknown; whoever sent a change reads back.
"""

from typing import Any, TypeVar

import httpx
from pydantic import BaseModel, ValidationError

from contract.admin import (
    BiasList,
    Capabilities,
    ConfigHistory,
    ConfigState,
    MutationResult,
    ProbeResult,
    WhatIfRequest,
    WhatIfResponse,
)
from contract.headers import ADMIN_PREFIX, FENCING_EPOCH, IDEMPOTENCY_KEY, IF_MATCH
from contract.keep_alive import CLIENT_KEEP_ALIVE_SECONDS
from contract.problem import Problem
from controlplane.actuator.engine_admin import Mutation
from controlplane.errors import EngineError, EngineRefusedError, EngineUnreachableError
from controlplane.reconnecting import Reconnecting

READ_TIMEOUT_SECONDS = 2.0
CHANGE_TIMEOUT_SECONDS = 5.0
SHADOW_TIMEOUT_SECONDS = 30.0
"""What-if and probe compute on the engine."""

Body = TypeVar("Body", bound=BaseModel)


class HttpEngineAdmin:
    """The admin API of the engine at `base_url`; close it when done."""

    def __init__(
        self,
        engine_id: str,
        base_url: str,
        token: str,
        *,
        transport: httpx.BaseTransport | None = None,
        change_timeout_seconds: float = CHANGE_TIMEOUT_SECONDS,
    ) -> None:
        self._engine_id = engine_id
        self._change_timeout = change_timeout_seconds
        self._client = httpx.Client(
            base_url=base_url.rstrip("/") + ADMIN_PREFIX,
            headers={"Authorization": f"Bearer {token}"},
            timeout=READ_TIMEOUT_SECONDS,
            transport=transport or Reconnecting(CLIENT_KEEP_ALIVE_SECONDS),
            trust_env=False,
        )

    @property
    def engine_id(self) -> str:
        """The id that this engine is configured under."""
        return self._engine_id

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def config(self) -> ConfigState:
        """`GET config`."""
        return self._read("config", ConfigState)

    def history(self) -> ConfigHistory:
        """`GET config/history`."""
        return self._read("config/history", ConfigHistory)

    def capabilities(self) -> Capabilities:
        """`GET capabilities`."""
        return self._read("capabilities", Capabilities)

    def biases(self) -> BiasList:
        """`GET router-bias`."""
        return self._read("router-bias", BiasList)

    def bias_blob(self, bias_hash: str) -> bytes:
        """`GET router-bias/{hash}`."""
        return self._ask("GET", f"router-bias/{bias_hash}").content

    def what_if(self, request: WhatIfRequest) -> WhatIfResponse:
        """`POST router/what-if`."""
        answer = self._ask(
            "POST", "router/what-if", json=request.model_dump(mode="json"),
            timeout=SHADOW_TIMEOUT_SECONDS,
        )  # fmt: skip
        return self._parse(answer, WhatIfResponse)

    def probe(self) -> ProbeResult:
        """`POST probe`."""
        answer = self._ask("POST", "probe", timeout=SHADOW_TIMEOUT_SECONDS)
        return self._parse(answer, ProbeResult)

    def send(
        self,
        mutation: Mutation,
        *,
        epoch: int,
        blob: bytes | None = None,
        dry_run: bool = False,
    ) -> MutationResult:
        """Send one change; `dry_run` lets the engine validate it only."""
        headers = {
            IF_MATCH: mutation.if_match,
            FENCING_EPOCH: str(epoch),
            IDEMPOTENCY_KEY: mutation.key,
        }
        answer = self._ask(
            mutation.method, mutation.path, headers=headers, timeout=self._change_timeout,
            params={"dry_run": "true"} if dry_run else None,
            **({"json": mutation.body} if blob is None else {"content": blob}),
        )  # fmt: skip
        return self._parse(answer, MutationResult)

    def _read(self, path: str, kind: type[Body]) -> Body:
        return self._parse(self._ask("GET", path), kind)

    def _ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        try:
            answer = self._client.request(method, path, **options)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise EngineUnreachableError(
                f"engine {self._engine_id} did not answer {method} {path}: "
                f"{type(error).__name__} {error}".rstrip(),
                field="engine_id", value=self._engine_id,
            ) from error  # fmt: skip
        if answer.is_success:
            return answer
        raise self._refusal(answer, f"{method} {path}")

    def _refusal(self, answer: httpx.Response, asked: str) -> EngineError:
        try:
            problem = Problem.model_validate_json(answer.content)
        except ValidationError:
            problem = None
        if problem is not None and answer.status_code < 500:
            return EngineRefusedError(problem)
        said = problem.detail if problem is not None else answer.reason_phrase
        return EngineUnreachableError(
            f"engine {self._engine_id} answered {answer.status_code} to {asked}: {said}",
            field="engine_id", value=self._engine_id,
        )  # fmt: skip

    def _parse(self, answer: httpx.Response, kind: type[Body]) -> Body:
        try:
            return kind.model_validate_json(answer.content)
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(str(part) for part in first["loc"])
            raise EngineError(
                f"engine {self._engine_id} gave a {kind.__name__} that breaks the contract: "
                f"{field}: {first['msg']}",
                field=field,
            ) from error  # fmt: skip
