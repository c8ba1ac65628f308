"""What the HTTP server needs of the engine core. `engine.llm_engine.LLMEngine` satisfies it."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from contract.admin import FaultInjection, RankAck, WhatIfResponse
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


class EngineCore(Protocol):
    """The running core: ranks, scheduler, telemetry. All coroutines are safe to cancel."""

    model: ModelFacts
    failed: "asyncio.Future[BaseException]"
    """Resolved with a RankFailedError when a rank dies or stops answering."""

    def generate(self, request: GenerationRequest) -> AsyncGenerator[TokenEvent, None]:
        """Admit and stream; raises QueueFullError or PromptTooLongError before the first event.

        Closing the generator (`aclose`) aborts the request and frees its blocks.
        """
        ...

    def annotate(self, *, epoch_seen: int, frozen: bool) -> None:
        """What the next frames say of the server: the fencing epoch it saw, and its freeze."""
        ...

    async def commit(self, plan: LivePlan) -> CommitReceipt:
        """Prepare on every rank, then switch all at one step; raises, having changed nothing."""
        ...

    def check(self, config: RuntimeConfig) -> None:
        """Raise RefusedError when this engine cannot run `config` (memory, capability)."""
        ...

    async def live_bias(self) -> Bias | None:
        """The bias as it is now on rank 0: differs from the committed one while it updates."""
        ...

    async def what_if(self, bias: Bias | None, capacity_factor: str | None) -> WhatIfResponse:
        """Replay the sampled steps with another bias or another C."""
        ...

    async def recalibrate(
        self, *, target_cv: float, max_iterations: int, update_speed: float
    ) -> tuple[Bias, int, tuple[float, ...], tuple[float, ...]]:
        """Right-sign updates on sampled scores: bias, iterations, CV before and after by layer."""
        ...

    async def probe(self) -> tuple[float, int]:
        """Negative log-likelihood of the fixed probe text (nats per token) and its tokens."""
        ...


class FaultControl(Protocol):
    """Faults that this engine was started with; `engine.faults` satisfies it."""

    names: frozenset[str]

    async def inject(self, name: str, params: Mapping[str, float]) -> None:
        """Start a fault; raises BadRequestError for an unknown parameter or a bad value."""
        ...

    async def clear(self, name: str) -> None:
        """Stop a fault; does nothing when it is not active. What it broke stays broken."""
        ...

    def active(self) -> tuple[FaultInjection, ...]:
        """Faults that run now."""
        ...
