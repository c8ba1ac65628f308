"""A small real core: echoes the prompt's tokens, keeps commits, moves its bias when told."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace

import numpy as np

from contract.admin import RankAck, WhatIfResponse, WhatIfSide
from contract.runtime_config import DispatchDtype, RuntimeConfig
from engine.errors import EngineError, QueueFullError, RankFailedError, RefusedError
from engine.server.core import (
    Bias,
    CommitReceipt,
    GenerationRequest,
    LivePlan,
    ModelFacts,
    TokenEvent,
)

LAYERS = 3
EXPERTS = 8
CONTEXT = 64
EOS = 256


def checkpoint_bias() -> Bias:
    return np.linspace(-0.1, 0.1, LAYERS * EXPERTS, dtype=np.float32).reshape(LAYERS, EXPERTS)


def model_facts(bias: Bias | None) -> ModelFacts:
    return ModelFacts(
        name="echo", layers=LAYERS + 1, moe_layers=LAYERS, experts=EXPERTS, top_k=2,
        vocabulary=259, context_tokens=CONTEXT, expert_set_hash="e" * 64, checkpoint_bias=bias,
        eos_token_ids=(EOS,),
    )  # fmt: skip


class EchoCore:
    """Answers with the prompt's own tokens, then ends; two pretended ranks, one step a commit."""

    def __init__(self, bias: Bias | None = None, *, has_bias: bool = True) -> None:
        self.model = model_facts(
            (checkpoint_bias() if bias is None else bias) if has_bias else None
        )
        self.failed: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
        self.plans: list[LivePlan] = []
        self.bias = self.model.checkpoint_bias
        self.noted: tuple[int, bool] = (0, False)
        self.aborted: list[str] = []
        self.requests: list[GenerationRequest] = []
        self.hold = asyncio.Event()
        self.hold.set()
        self.hold_after: int | None = None
        self.queue_full = False
        self.refuse_commit: EngineError | None = None
        self.step = 0

    @property
    def live(self) -> LivePlan:
        return self.plans[-1]

    async def generate(self, request: GenerationRequest) -> AsyncGenerator[TokenEvent, None]:
        if self.queue_full:
            raise QueueFullError("3 requests wait, the queue holds 3", retry_after_seconds=2.4)
        self.requests.append(request)
        finished = False
        try:
            tokens = request.token_ids[: request.max_tokens]
            for index, token in enumerate(tokens):
                await asyncio.sleep(0)
                if index == self.hold_after:
                    self.hold.clear()
                await self.hold.wait()
                if self.failed.done():
                    raise RankFailedError("rank 1 died", rank=1)
                if token == EOS and not request.ignore_eos:
                    finished = True
                    yield TokenEvent(token, "stop")
                    return
                last = index == len(tokens) - 1
                finished = last
                yield TokenEvent(token, "length" if last else None)
        finally:
            if not finished:
                self.aborted.append(request.request_id)

    def annotate(self, *, epoch_seen: int, frozen: bool) -> None:
        self.noted = (epoch_seen, frozen)

    async def commit(self, plan: LivePlan) -> CommitReceipt:
        await asyncio.sleep(0)
        if self.refuse_commit is not None:
            raise self.refuse_commit
        self.step += 1
        self.plans.append(plan)
        if plan.reload_bias:
            self.bias = plan.bias
        acks = tuple(RankAck(rank=r, generation=plan.generation, step=self.step) for r in (0, 1))
        return CommitReceipt(effective_at_step=self.step, ranks=acks)

    def check(self, config: RuntimeConfig) -> None:
        if config.dispatch_dtype is DispatchDtype.FP8_E4M3:
            raise RefusedError(
                "dispatch_dtype fp8_e4m3 needs CUDA, this engine runs on cpu",
                field="dispatch_dtype", value="fp8_e4m3", bound="native",
            )  # fmt: skip

    def move_bias(self, by: float) -> None:
        """What an updater does to the live bias."""
        assert self.bias is not None
        self.bias = self.bias + np.float32(by)

    async def live_bias(self) -> Bias | None:
        return self.bias

    async def what_if(self, bias: Bias | None, capacity_factor: str | None) -> WhatIfResponse:
        side = WhatIfSide(
            tau=(0.1,) * LAYERS, tau_standard_error=(0.01,) * LAYERS,
            overflow_ratio=(0.02,) * LAYERS, overflow_ratio_total=0.02,
            max_over_mean=(1.5,) * LAYERS,
        )  # fmt: skip
        note = f"C {capacity_factor}" if bias is None else "bias"
        return WhatIfResponse(
            sampled_steps=16, sampled_tokens=4096, live=side, counterfactual=side,
            sufficient=True, note=note,
        )  # fmt: skip

    async def recalibrate(
        self, *, target_cv: float, max_iterations: int, update_speed: float
    ) -> tuple[Bias, int, tuple[float, ...], tuple[float, ...]]:
        assert self.bias is not None
        calmer = self.bias * np.float32(1 - update_speed)
        return calmer, min(7, max_iterations), (0.5,) * LAYERS, (target_cv,) * LAYERS

    async def probe(self) -> tuple[float, int]:
        return 1.25, 100


class EchoCoreWithoutBias(EchoCore):
    """A model whose router has no selection bias."""

    def __init__(self) -> None:
        super().__init__(has_bias=False)


def renamed(core: EchoCore, expert_set_hash: str) -> EchoCore:
    """The same core with other experts."""
    core.model = replace(core.model, expert_set_hash=expert_set_hash)
    return core
