"""What the engine core exchanges with its server: plain values, no behaviour, no torch."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from contract.admin import RankAck
from contract.runtime_config import RuntimeConfig

Bias = npt.NDArray[np.float32]
"""Router bias, FP32 [MoE layers, experts]."""


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """One completion: token ids in, sampling, and how much out."""

    request_id: str
    token_ids: tuple[int, ...]
    max_tokens: int
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int | None = None
    ignore_eos: bool = False


@dataclass(frozen=True, slots=True)
class TokenEvent:
    """One output token; `finish_reason` ("stop", "length", "abort") stands on the last."""

    token_id: int
    finish_reason: str | None = None


@dataclass(frozen=True, slots=True)
class LivePlan:
    """A generation ready to commit: the config and the tensors that its hashes name.

    A plan may repeat the live generation with an equal config: then only the last known good
    changed (mark-good).

    Attributes:
        bias: what `config.router_bias` names; made live only when `reload_bias`.
        reload_bias: False keeps the live bias as it is, moved by an updater or not; the server
            sets True when the hash changed, when `bias_update` went off, and on every rollback.
        lkg_bias: the last known good, for shadow routing.
        bias_version, lkg_version: integers of the bias store, 0 for none.
        physical_to_logical: [MoE layers, slots]; None is the linear placement.
    """

    generation: int
    config: RuntimeConfig
    bias: Bias | None
    lkg_bias: Bias | None = None
    lkg_hash: str | None = None
    bias_version: int = 0
    lkg_version: int = 0
    physical_to_logical: npt.NDArray[np.int64] | None = None
    reload_bias: bool = True


@dataclass(frozen=True, slots=True)
class CommitReceipt:
    """Every rank runs the generation from this step on."""

    effective_at_step: int
    ranks: tuple[RankAck, ...]


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """Shape of the served model."""

    name: str
    layers: int
    moe_layers: int
    experts: int
    top_k: int
    vocabulary: int
    context_tokens: int
    expert_set_hash: str
    checkpoint_bias: Bias | None
    eos_token_ids: tuple[int, ...] = ()
    extra: dict[str, str] = field(default_factory=dict)
