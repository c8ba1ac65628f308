"""The core that the engine's own HTTP server governs, over a simulated engine.

Predictions (what-if, recalibration, probe) come from the same closed forms as the frames. Ticks and
commits exclude each other by a lock: a commit takes effect between two ticks.
"""

import asyncio
import threading
from collections.abc import AsyncGenerator

import numpy as np
import numpy.typing as npt

from contract.admin import RankAck, WhatIfResponse, WhatIfSide
from contract.runtime_config import CAPACITY_LADDER, RuntimeConfig
from engine.errors import BadRequestError, QueueFullError, RefusedError
from engine.parallel.placement import Placement, linear
from engine.server.core import (
    Bias,
    CommitReceipt,
    GenerationRequest,
    LivePlan,
    ModelFacts,
    TokenEvent,
)
from engine.simulation import drift
from engine.simulation.conditions import Regulator
from engine.simulation.cost.memory import card_memory
from engine.simulation.engine import SimulatedEngine
from engine.simulation.model import hash_of
from engine.simulation.routing.overflow import step_overflow

Floats = npt.NDArray[np.float64]

REPLY = b"This text is simulated: no model has run. "
VOCABULARY = 259
PROBE_TOKENS = 256
PROBE_BASE = 1.20
PROBE_PER_SHIFT = 0.4
"""Nats a token: of the probe text under the last known good, and more for every unit of total
variation between both biases' selections. Assumed."""
MIN_TOKENS = 4096
_SAMPLED_STEPS = 64


class SimulatedCore:
    """`engine.server.core.EngineCore` of one simulated engine; made inside the running loop."""

    def __init__(self, engine: SimulatedEngine) -> None:
        self.engine = engine
        self.lock = threading.Lock()
        model = engine.model
        self.model = ModelFacts(
            name=f"{model.shape.name} (simulated)", layers=model.shape.layers,
            moe_layers=model.layers, experts=model.shape.experts, top_k=model.shape.top_k,
            vocabulary=VOCABULARY, context_tokens=131_072, expert_set_hash=model.expert_set_hash,
            checkpoint_bias=model.checkpoint_bias,
        )  # fmt: skip
        self.failed: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()

    async def generate(self, request: GenerationRequest) -> AsyncGenerator[TokenEvent, None]:
        """Say that nothing was generated, at the pace of the simulated steps."""
        engine = self.engine
        if engine.queued >= engine.settings.queue_limit:
            raise QueueFullError(f"{engine.queued} requests wait", retry_after_seconds=1.0)
        decode = float(max(1, engine.running))
        with self.lock:
            seconds, _ = engine.step(decode, 0.0, float(len(request.token_ids)))
        for index in range(request.max_tokens):
            await asyncio.sleep(seconds)
            last = index == request.max_tokens - 1
            yield TokenEvent(REPLY[index % len(REPLY)], "length" if last else None)

    def annotate(self, *, epoch_seen: int, frozen: bool) -> None:
        """What the next frames say of the server."""
        self.engine.governed.epoch_seen = epoch_seen
        self.engine.governed.frozen = frozen

    async def commit(self, plan: LivePlan) -> CommitReceipt:
        """Switch between two ticks."""
        return await asyncio.to_thread(self._commit, plan)

    def check(self, config: RuntimeConfig) -> None:
        """Refuse a C whose expert buffers do not fit beside the weights."""
        settings = self.engine.settings
        factor = config.capacity_fraction
        memory = card_memory(
            self.engine.model.shape, settings.where, settings.layout, kv_tokens=0.0,
            group_tokens=float(config.chunk_size),
            capacity_factor=1.0 if factor is None else float(factor),
        )  # fmt: skip
        if not memory.fits:
            raise RefusedError(
                f"capacity_factor {config.capacity_factor} needs {memory.buffers / 1e9:.2f} GB of "
                f"expert buffers, {-memory.free / 1e9:.2f} GB more than a card has",
                field="capacity_factor", value=config.capacity_factor,
            )  # fmt: skip

    async def live_bias(self) -> Bias | None:
        """The bias as it is now."""
        return self.engine.governed.live_bias

    async def what_if(self, bias: Bias | None, capacity_factor: str | None) -> WhatIfResponse:
        """Another bias or another C on the present traffic."""
        return await asyncio.to_thread(self._what_if, bias, capacity_factor)

    async def recalibrate(
        self, *, target_cv: float, max_iterations: int, update_speed: float
    ) -> tuple[Bias, int, tuple[float, ...], tuple[float, ...]]:
        """Right-sign updates until the debiased expert CV is at the target."""
        return await asyncio.to_thread(self._recalibrate, target_cv, max_iterations, update_speed)

    async def probe(self) -> tuple[float, int]:
        """The probe text's loss grows with the shift that the live bias makes (assumed)."""
        with self.lock:
            live, good = self.engine.selection()
        shift = 0.0 if good is None else _shift(live, good)
        return PROBE_BASE + PROBE_PER_SHIFT * shift, PROBE_TOKENS

    def _commit(self, plan: LivePlan) -> CommitReceipt:
        governed = self.engine.governed
        with self.lock:
            governed.config, governed.generation = plan.config, plan.generation
            governed.configured_hash = plan.config.router_bias
            governed.bias_version, governed.lkg_version = plan.bias_version, plan.lkg_version
            governed.lkg_bias = plan.lkg_bias
            governed.lkg_hash = plan.lkg_hash
            if plan.reload_bias:
                governed.live_bias = plan.bias
                governed.live_hash = None if plan.bias is None else hash_of(plan.bias)
                governed.reloads += 1
            governed.placement = self._placement(plan)
            step = self.engine.step_number
        ranks = range(self.engine.settings.layout.ranks)
        acks = tuple(RankAck(rank=r, generation=plan.generation, step=step) for r in ranks)
        return CommitReceipt(effective_at_step=step, ranks=acks)

    def _placement(self, plan: LivePlan) -> Placement:
        ranks, experts = self.engine.settings.layout.ranks, self.model.experts
        if plan.physical_to_logical is None:
            return linear(self.model.moe_layers, experts, ranks)
        return Placement(plan.physical_to_logical, ranks, experts)

    def _what_if(self, bias: Bias | None, capacity_factor: str | None) -> WhatIfResponse:
        engine = self.engine
        with self.lock:
            live, _ = engine.selection()
            other = live if bias is None else engine.selection_under(bias)
            tokens = engine.last_step_tokens
            config = engine.governed.config
        sampled = round(tokens) * _SAMPLED_STEPS
        factor = config.capacity_factor if capacity_factor is None else capacity_factor
        return WhatIfResponse(
            sampled_steps=_SAMPLED_STEPS, sampled_tokens=sampled,
            live=self._side(live, tokens, config.capacity_factor, sampled),
            counterfactual=self._side(other, tokens, factor, sampled),
            sufficient=sampled >= MIN_TOKENS, note="simulated: closed form",
        )  # fmt: skip

    def _side(
        self, selection: Floats, tokens: float, factor: str | None, sampled: int
    ) -> WhatIfSide:
        experts, top_k = selection.shape[1], self.model.top_k
        skew = selection.std(axis=1) / selection.mean(axis=1)
        error = np.sqrt((experts - top_k) / max(1.0, sampled * top_k * 2.0 * experts))
        ratio = np.zeros(len(selection))
        if factor is not None:
            over = step_overflow(
                selection, tokens=max(1, round(tokens)), sequences=tokens, top_k=top_k,
                cap_min=self.engine.governed.config.cap_min,
            )  # fmt: skip
            ratio = over.at_rung[CAPACITY_LADDER.index(factor)] / max(1, round(tokens)) / top_k
        return WhatIfSide(
            tau=tuple(skew.tolist()),
            tau_standard_error=(float(error),) * len(selection),
            overflow_ratio=tuple(ratio.tolist()),
            overflow_ratio_total=float(ratio.mean()),
            max_over_mean=tuple((selection.max(axis=1) / selection.mean(axis=1)).tolist()),
        )

    def _recalibrate(
        self, target_cv: float, most: int, speed: float
    ) -> tuple[Bias, int, tuple[float, ...], tuple[float, ...]]:
        engine = self.engine
        bias = engine.governed.live_bias
        if bias is None:
            raise BadRequestError("this model's router has no bias", field="router_bias")
        rule = Regulator(sign=1, speed=speed, update_tokens=8192)
        before: tuple[float, ...] | None = None
        skew: tuple[float, ...] = ()
        for iteration in range(most + 1):
            with self.lock:
                selection = engine.selection_under(bias)
            skew = tuple((selection.std(axis=1) / selection.mean(axis=1)).tolist())
            before = before or skew
            if max(skew) <= target_cv or iteration == most:
                return bias, iteration, before, skew
            bias = drift.regulated(bias, bias, selection, 8192.0, rule, self.model.top_k)
        return bias, most, before or skew, skew


def _shift(live: Floats, good: Floats) -> float:
    """Mean total variation between both selections."""
    apart = np.abs(live / live.sum(1, keepdims=True) - good / good.sum(1, keepdims=True))
    return float(apart.sum(axis=1).mean() / 2.0)
