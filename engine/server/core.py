"""What the HTTP server needs of the engine core. `engine.llm_engine.LLMEngine` satisfies it."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from typing import Protocol

from contract.admin import FaultInjection, WhatIfResponse
from contract.runtime_config import RuntimeConfig
from engine.llm_engine.exchange import (
    Bias,
    CommitReceipt,
    GenerationRequest,
    LivePlan,
    ModelFacts,
    TokenEvent,
)

__all__ = [
    "Bias",
    "CommitReceipt",
    "EngineCore",
    "FaultControl",
    "GenerationRequest",
    "LivePlan",
    "ModelFacts",
    "TokenEvent",
]


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
