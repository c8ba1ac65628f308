"""Bodies of an engine's admin API (`/admin/v1`).

Every mutation carries `If-Match`, `X-Fencing-Epoch` and `Idempotency-Key`; see `contract.headers`.
"""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from contract.model import ContractModel
from contract.runtime_config import ContentHash, Rung, RuntimeConfig

MAX_LEASE_SECONDS = 3600.0
MAX_GENERATION = 2**53 - 1
"""JSON readers keep it exactly, and a database column holds it."""


class CauseKind(StrEnum):
    """Who wanted a generation."""

    BOOT = "boot"
    DECISION = "decision"
    OPERATOR = "operator"
    ALERT = "alert"
    LEASE = "lease"
    FAULT = "fault"


class Cause(ContractModel):
    """Why a generation exists: kind, the id of the decision or alert, and who."""

    kind: CauseKind
    id: str = Field(default="", max_length=128)
    actor: str = Field(default="", max_length=128)
    reason: str = Field(default="", max_length=512)


class Lease(ContractModel):
    """A degradation with a time to live: on expiry the engine restores this knob alone."""

    knob: str
    restore: str | int | None
    expires_in_seconds: float
    holder: str


class ConfigDocument(ContractModel):
    """One immutable generation of the runtime config, with what made it."""

    generation: int = Field(ge=0)
    config_hash: ContentHash
    config: RuntimeConfig
    parent: int | None
    cause: Cause
    committed_unix_seconds: float
    effective_at_step: int = Field(ge=0)


class ConfigState(ContractModel):
    """`GET config`: the present generation and what guards it."""

    document: ConfigDocument
    etag: str
    epoch_seen: int
    frozen: bool
    freeze_reason: str = ""
    leases: tuple[Lease, ...] = ()


class ConfigPut(ContractModel):
    """`PUT config`: the whole new config, absolute values only.

    `lease_seconds` makes the change of some knobs temporary; renewal mints no generation.
    """

    config: RuntimeConfig
    cause: Cause
    lease_seconds: dict[str, Annotated[float, Field(gt=0, le=MAX_LEASE_SECONDS)]] = Field(
        default_factory=dict
    )


class RankAck(ContractModel):
    """One rank's word that it runs a generation."""

    rank: int
    generation: int
    step: int


class MutationResult(ContractModel):
    """The answer to every mutation."""

    observed_generation: int
    config_hash: ContentHash
    etag: str
    effective_at_step: int | None
    dry_run: bool = False
    ranks: tuple[RankAck, ...] = ()
    renewed: bool = False


class ConfigRollback(ContractModel):
    """`POST config/rollback`: back to a stored generation (a new generation is minted)."""

    to: int = Field(ge=0, le=MAX_GENERATION)
    cause: Cause


class ConfigHistory(ContractModel):
    """`GET config/history?limit=N`: the newest N committed generations, oldest first."""

    documents: tuple[ConfigDocument, ...]


class Freeze(ContractModel):
    """`POST freeze`: refuse every mutation but an unfreeze; pauses lease expiry."""

    reason: str = Field(min_length=1, max_length=512)
    actor: str = Field(default="", max_length=128)


class BiasStatus(StrEnum):
    """Life of a bias snapshot."""

    CANDIDATE = "candidate"
    BAKING = "baking"
    LAST_KNOWN_GOOD = "last_known_good"
    QUARANTINED = "quarantined"


class BiasOrigin(StrEnum):
    """Where a bias snapshot came from."""

    CHECKPOINT = "checkpoint"
    UPLOAD = "upload"
    REGULATOR = "regulator"
    RECALIBRATION = "recalibration"
    FAULT = "fault"
    ROLLBACK = "rollback"


class BiasInfo(ContractModel):
    """One stored version of the router bias, [layers, experts] in FP32.

    `version` counts up from 1 in the order of storing; `distance` is L∞ to the last known good.
    """

    bias_hash: ContentHash
    version: int = Field(ge=1)
    origin: BiasOrigin
    status: BiasStatus
    created_unix_seconds: float
    layers: int
    experts: int
    distance: float
    max_abs: float
    note: str = ""


class BiasList(ContractModel):
    """`GET router-bias`: every stored version, the live and the configured one.

    `live_hash` differs from `configured_hash` while an updater moves the bias.
    """

    configured_hash: ContentHash | None
    live_hash: ContentHash | None
    last_known_good: ContentHash | None
    versions: tuple[BiasInfo, ...]


class BiasRollback(ContractModel):
    """`POST router-bias/rollback`: make a stored snapshot live, whole or for some MoE layers.

    Sets `bias_update` off in the same generation.
    """

    bias_hash: ContentHash
    layers: tuple[int, ...] | None = None
    cause: Cause


class BiasMarkGood(ContractModel):
    """`POST router-bias/mark-good`: this snapshot (default: the live one) is last known good."""

    bias_hash: ContentHash | None = None
    actor: str = Field(default="", max_length=128)


class BiasRecalibrate(ContractModel):
    """`POST router-bias/recalibrate`: right-sign updates on sampled scores, stored as a candidate.

    Stops at `target_cv` (debiased expert CV) or after `max_iterations`. Does not change traffic.
    """

    target_cv: float = Field(default=0.1, gt=0, le=1)
    max_iterations: int = Field(default=500, ge=1, le=5000)
    update_speed: float = Field(default=1e-3, gt=0, le=0.1)


class BiasRecalibrated(ContractModel):
    """The candidate that a recalibration stored."""

    bias_hash: ContentHash
    iterations: int
    converged: bool
    cv_before: tuple[float, ...]
    cv_after: tuple[float, ...]


class WhatIfRequest(ContractModel):
    """`POST router/what-if`: another bias, or another C, on the sampled steps. Exactly one."""

    bias_hash: ContentHash | None = None
    capacity_factor: Rung | None = None


class WhatIfSide(ContractModel):
    """One side of the comparison, per MoE layer; overflow is counted per step."""

    tau: tuple[float, ...]
    tau_standard_error: tuple[float, ...]
    overflow_ratio: tuple[float, ...]
    overflow_ratio_total: float
    max_over_mean: tuple[float, ...]


class WhatIfResponse(ContractModel):
    """Prediction from sampled whole steps; layer-wise, upstream states stay as observed."""

    sampled_steps: int
    sampled_tokens: int
    live: WhatIfSide
    counterfactual: WhatIfSide
    sufficient: bool
    note: str = ""


class ProbeResult(ContractModel):
    """`POST probe`: negative log-likelihood of the fixed probe text, nats per token."""

    negative_log_likelihood: float
    tokens: int
    generation: int
    bias_hash: ContentHash | None


class PlacementBody(ContractModel):
    """`GET/PUT placement`: physical slot → logical expert, per MoE layer [layers, slots].

    Slots are contiguous by rank: rank r holds slots [r·S/M, (r+1)·S/M).
    """

    placement_id: str
    ranks: int = Field(ge=1)
    physical_to_logical: tuple[tuple[int, ...], ...]


class KnobSupport(StrEnum):
    """What a running engine can do with a knob."""

    LIVE = "live"
    RESTART_ONLY = "restart_only"
    ABSENT = "absent"


class KnobCapability(ContractModel):
    """One knob: support, allowed values, and why not where it is not live."""

    knob: str
    support: KnobSupport
    choices: tuple[str | int | None, ...] | None = None
    minimum: int | None = None
    maximum: int | None = None
    reason: str = ""


class Capabilities(ContractModel):
    """`GET capabilities`."""

    contract_version: str
    engine_id: str
    group: str
    model: str
    role: Literal["mixed", "prefill", "decode"]
    simulated: bool
    ranks: int
    moe_layers: int
    experts: int
    top_k: int
    context_tokens: int
    knobs: tuple[KnobCapability, ...]


class FaultInjection(ContractModel):
    """`POST faults`: start a fault; the routes exist only on an engine started with faults."""

    name: str = Field(min_length=1, max_length=64)
    params: dict[str, float] = Field(default_factory=dict)


class FaultState(ContractModel):
    """`GET faults`, and the answer to `POST faults` and `DELETE faults?name=N`."""

    available: tuple[str, ...]
    active: tuple[FaultInjection, ...]
