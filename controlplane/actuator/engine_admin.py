"""What the control plane asks of an engine's admin API, and the one shape of every change.

Reads may be repeated at will. A change is a `Mutation`: a value that is stored before it is sent,
so that after a crash the very same request can be recognised, resent or given up.
"""

from typing import Any, Literal, Protocol

from pydantic import BaseModel, ConfigDict

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


class Mutation(BaseModel):
    """One change request to an engine, complete but for the fencing epoch of the sender.

    Attributes:
        method, path: path is below `/admin/v1`, e.g. "config".
        body: JSON body; None when `blob` is sent instead.
        blob: content hash of a stored bias snapshot that is sent as the body.
        if_match: the ETag that the engine must still have.
        key: idempotency key: action, step, engine, attempt.
    """

    model_config = ConfigDict(frozen=True)

    method: Literal["PUT", "POST", "DELETE"]
    path: str
    body: dict[str, Any] | None = None
    blob: str | None = None
    if_match: str
    key: str


class EngineAdmin(Protocol):
    """One engine.

    Every call raises EngineUnreachableError (the outcome is unknown: read back) or
    EngineRefusedError (the engine said no, with its problem details).
    """

    @property
    def engine_id(self) -> str:
        """The id that this engine is configured under."""
        ...

    def config(self) -> ConfigState:
        """The present generation, its ETag, freeze and leases."""
        ...

    def history(self) -> ConfigHistory:
        """Stored generations, oldest first."""
        ...

    def capabilities(self) -> Capabilities:
        """What this engine is and which knobs are live."""
        ...

    def biases(self) -> BiasList:
        """Stored bias versions; the configured, live and last-good hashes."""
        ...

    def bias_blob(self, bias_hash: str) -> bytes:
        """A bias snapshot as safetensors bytes."""
        ...

    def what_if(self, request: WhatIfRequest) -> WhatIfResponse:
        """Shadow routing: another bias or another C on sampled steps; traffic is untouched."""
        ...

    def probe(self) -> ProbeResult:
        """Negative log-likelihood of the fixed probe text."""
        ...

    def send(self, mutation: Mutation, *, epoch: int, blob: bytes | None = None) -> MutationResult:
        """Send one change; `blob` is the body when the mutation names one."""
        ...
