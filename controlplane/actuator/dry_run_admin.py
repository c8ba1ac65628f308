"""`EngineAdmin` that reads for real and changes nothing: shadow mode.

A config change is sent as `?dry_run=true`, so the engine's own checks are heard; every other change
is answered from a read-back that its precondition would have met.
"""

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
from contract.problem import Problem
from controlplane.actuator.engine_admin import Mutation
from controlplane.actuator.http_engine_admin import HttpEngineAdmin
from controlplane.errors import EngineRefusedError


class DryRunAdmin:
    """Shadow of an engine."""

    def __init__(self, admin: HttpEngineAdmin) -> None:
        self._admin = admin

    @property
    def engine_id(self) -> str:
        """The id that this engine is configured under."""
        return self._admin.engine_id

    def config(self) -> ConfigState:
        """The present generation."""
        return self._admin.config()

    def history(self) -> ConfigHistory:
        """Stored generations, oldest first."""
        return self._admin.history()

    def capabilities(self) -> Capabilities:
        """What this engine is."""
        return self._admin.capabilities()

    def biases(self) -> BiasList:
        """Stored bias versions."""
        return self._admin.biases()

    def bias_blob(self, bias_hash: str) -> bytes:
        """A bias snapshot as safetensors bytes."""
        return self._admin.bias_blob(bias_hash)

    def what_if(self, request: WhatIfRequest) -> WhatIfResponse:
        """Shadow routing."""
        return self._admin.what_if(request)

    def probe(self) -> ProbeResult:
        """The fixed probe text."""
        return self._admin.probe()

    def send(self, mutation: Mutation, *, epoch: int, blob: bytes | None = None) -> MutationResult:
        """Ask whether the change would be taken; nothing changes."""
        if mutation.path == "config" and blob is None:
            return self._admin.send(mutation, epoch=epoch, dry_run=True)
        state = self._admin.config()
        if state.etag != mutation.if_match:
            raise EngineRefusedError(
                Problem(
                    type="precondition-failed", title="Precondition failed", status=412,
                    detail=f"{mutation.path}: If-Match {mutation.if_match} is stale",
                    field="If-Match", value=mutation.if_match, current=state.etag,
                )
            )  # fmt: skip
        return MutationResult(
            observed_generation=state.document.generation,
            config_hash=state.document.config_hash,
            etag=state.etag,
            effective_at_step=None,
            dry_run=True,
        )
