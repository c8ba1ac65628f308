"""The engine core: ranks, scheduler and telemetry behind the coroutines that a server needs."""

import asyncio
import logging
import sys
import threading
import uuid
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import Future
from contextlib import aclosing
from dataclasses import replace
from typing import Any, TypeVar

from contract.admin import WhatIfResponse
from contract.runtime_config import RuntimeConfig
from engine.config import EngineConfig
from engine.errors import EngineError, NotReadyError, RefusedError
from engine.llm_engine import clock
from engine.llm_engine.assembly import build_exporter, build_otel, build_reporter, first_plan
from engine.llm_engine.exchange import (
    Bias,
    CommitReceipt,
    GenerationRequest,
    LivePlan,
    ModelFacts,
    TokenEvent,
)
from engine.llm_engine.facts import buffer_shape, model_facts
from engine.llm_engine.frame_reporter import FrameSink
from engine.llm_engine.intake import Intake
from engine.llm_engine.knobs import check_knobs
from engine.llm_engine.live_request import Delivery, deliver
from engine.llm_engine.liveness import Liveness
from engine.llm_engine.probe_text import probe_tokens
from engine.llm_engine.rank_group import RankGroup
from engine.llm_engine.recalibration import in_own_thread, recalibrate_from_scores
from engine.llm_engine.shadow_answers import what_if_response
from engine.llm_engine.step_loop import StepLoop
from engine.telemetry.prometheus import EngineCollector
from engine.telemetry.request_metrics import RequestMetrics
from engine.worker.messages import (
    CountSamples,
    Probe,
    Question,
    RankFacts,
    ReadBias,
    ReadScores,
    SetHook,
)
from engine.worker.step_hook import StepHook

log = logging.getLogger(__name__)

_SWITCH_SECONDS = 0.0005
_FLUSH_SECONDS = 2.0
_NOT_STARTED = "the engine has not been started"

T = TypeVar("T")


class LLMEngine:
    """Satisfies `engine.server.core.EngineCore`. Use it on one event loop.

    Args:
        config: fixed at start.
        sinks: each gets every frame, on a thread that may take its time; beside them the exporter
            (where `telemetry_url` is set) and `collector`, the series of `/metrics`.

    Example:
        engine = LLMEngine(EngineConfig())
        await engine.start()
        async for event in engine.generate(GenerationRequest("r1", (104, 105), max_tokens=8)):
            print(event.token_id)
        await engine.stop()
    """

    model: ModelFacts
    failed: "asyncio.Future[BaseException]"

    def __init__(self, config: EngineConfig, *, sinks: tuple[FrameSink, ...] = ()) -> None:
        self.config = config
        self.boot_id = uuid.uuid4().hex
        self.metrics = RequestMetrics()
        exporter = self._exporter = build_exporter(config, self.boot_id)
        self.collector = EngineCollector(None if exporter is None else lambda: exporter.counts)
        self._otel = build_otel(config, self.collector.collect)
        self._sinks = (self.collector.observe, *sinks)
        if exporter is not None:
            self._sinks = (exporter.submit, *self._sinks)
        self._thread: threading.Thread | None = None
        self._asyncio: asyncio.AbstractEventLoop | None = None
        self._steps: StepLoop | None = None
        self._group: RankGroup | None = None
        self._probe_tokens: tuple[int, ...] | None = None
        self._why_not = _NOT_STARTED

    async def start(self) -> None:
        """Start the ranks and wait until they serve.

        Raises:
            CheckpointError: the checkpoint cannot be served.
            RankFailedError: a rank did not come up.
        """
        self._asyncio = asyncio.get_running_loop()
        self.failed = self._asyncio.create_future()
        # The step thread shares the interpreter with the server: the default 5 ms between two
        # threads' turns would be added to a step whenever the server is busy.
        sys.setswitchinterval(_SWITCH_SECONDS)
        started: Future[None] = Future()
        self._group = RankGroup(
            self.config, Liveness(self.config.ranks, self.config.watchdog_seconds)
        )
        self._thread = threading.Thread(
            target=self._main, args=(self._group, started), name="steps"
        )
        self._thread.start()
        try:
            await asyncio.wrap_future(started)
        except asyncio.CancelledError:
            await self.stop()
            raise

    async def stop(self) -> None:
        """End the ranks; requests that still run are told. Safe to call twice."""
        if self._thread is None:
            return
        if self._group is not None:
            self._group.cancel_start()
        self._why_not = "the engine is stopping"
        if self._steps is not None:
            self._steps.stop()
        await asyncio.to_thread(self._thread.join)

    @property
    def process_ids(self) -> tuple[int, ...]:
        """Process id of each rank; empty when none runs."""
        return () if self._group is None else self._group.process_ids

    async def generate(self, request: GenerationRequest) -> AsyncGenerator[TokenEvent, None]:
        """Admit and stream; see `EngineCore.generate`."""
        self._running()
        async with aclosing(self._intake.stream(request)) as events:
            async for event in events:
                yield event

    def annotate(self, *, epoch_seen: int, frozen: bool) -> None:
        """What the next frames say of the server."""
        steps = self._running()
        steps.status = replace(steps.status, epoch_seen=epoch_seen, frozen=frozen)

    async def commit(self, plan: LivePlan) -> CommitReceipt:
        """Prepare on every rank, then switch all at one step; see `EngineCore.commit`."""
        self.check(plan.config)
        steps = self._running()
        future: Future[CommitReceipt] = Future()
        steps.post(_unless_cancelled(future, lambda: steps.commit(plan, future)))
        return await asyncio.wrap_future(future)

    def check(self, config: RuntimeConfig) -> None:
        """Raise RefusedError when this engine cannot run `config`."""
        self._running()
        check_knobs(
            config, self._shape, has_bias=self.model.checkpoint_bias is not None,
            free_bytes=self._reporter.free_bytes,
        )  # fmt: skip

    async def live_bias(self) -> Bias | None:
        """The bias as it is now on rank 0."""
        answers: list[Bias | None] = await self._ask(ReadBias())
        return answers[0]

    async def what_if(self, bias: Bias | None, capacity_factor: str | None) -> WhatIfResponse:
        """Count the sampled steps under another bias or another C; see `EngineCore.what_if`."""
        counts = await self._ask(CountSamples(bias))
        return what_if_response(
            counts, self._running().commits.live.plan.config, top_k=self.model.top_k,
            capacity_factor=capacity_factor,
        )  # fmt: skip

    async def recalibrate(
        self, *, target_cv: float, max_iterations: int, update_speed: float
    ) -> tuple[Bias, int, tuple[float, ...], tuple[float, ...]]:
        """Right-sign updates on sampled scores; see `EngineCore.recalibrate`."""
        bias = await self.live_bias()
        if bias is None:
            raise RefusedError("the model has no router bias to recalibrate", field="router_bias")
        scores = await self._ask(ReadScores())
        found = await in_own_thread(
            lambda: recalibrate_from_scores(
                bias, scores, self._moe, target_cv=target_cv, max_iterations=max_iterations,
                update_speed=update_speed,
            ),
            name="recalibrate",
        )  # fmt: skip
        return found.bias, found.iterations, found.cv_before, found.cv_after

    async def probe(self) -> tuple[float, int]:
        """Negative log-likelihood of the fixed probe text (nats per token) and its tokens."""
        if self._probe_tokens is None:
            self._probe_tokens = await asyncio.to_thread(probe_tokens, self.config, self.model)
        answers: list[tuple[float, int]] = await self._ask(Probe(self._probe_tokens))
        nats, tokens = answers[0]
        steps = self._running()
        steps.status = replace(steps.status, probe_nll=nats)
        return nats, tokens

    async def set_hook(self, name: str, hook: StepHook | None) -> None:
        """Start a step hook on every rank, or stop it (None). Only faults have any."""
        steps = self._running()
        if hook is not None:
            steps.post(lambda: steps.hooks.start(name, hook, clock.monotonic()))
        else:
            steps.post(lambda: steps.hooks.stop(name))
        await self._ask(SetHook(name, hook))

    def set_quiet(self, *, quiet: bool) -> None:
        """Count nothing and send no frames from the next step on; for `trimtab bench overhead`."""
        steps = self._running()
        steps.post(lambda: setattr(steps, "quiet", quiet))

    @property
    def active_hooks(self) -> tuple[str, ...]:
        """Hooks that run; a commit that reloads the bias ends those that move it."""
        return () if self._steps is None else self._steps.hooks.active

    async def _ask(self, question: Question) -> list[Any]:
        steps = self._running()
        future: Future[list[Any]] = Future()
        steps.post(_unless_cancelled(future, lambda: steps.ask(question, future)))
        return await asyncio.wrap_future(future)

    def _running(self) -> StepLoop:
        if self._steps is None or self._why_not:
            raise NotReadyError(self._why_not or _NOT_STARTED)
        return self._steps

    def _main(self, group: RankGroup, started: "Future[None]") -> None:
        """The step thread, from the first rank's start to the last rank's end."""
        error: BaseException | None = None
        try:
            self._serve(group, started)
        except Exception as caught:
            error = caught
            if not isinstance(caught, EngineError):
                log.exception("the step thread failed")
        self._why_not = str(error or "the engine has stopped")
        if error is None:
            group.stop()
        else:
            group.kill()
        self._end(error, started)
        group.close()

    def _serve(self, group: RankGroup, started: "Future[None]") -> None:
        facts = group.start()
        self.model = model_facts(self.config, facts)
        steps = self._build(group, facts)
        self._intake = Intake(self.config, self.model, self.metrics, steps)
        self._steps = steps
        self._why_not = ""
        group.check_cancelled()
        if self._exporter is not None:
            self._exporter.start()
        self._otel.start()
        if started.set_running_or_notify_cancel():
            started.set_result(None)
        steps.run()

    def _end(self, error: BaseException | None, started: "Future[None]") -> None:
        if self._steps is not None:
            self._steps.fail(
                error if isinstance(error, EngineError) else NotReadyError(self._why_not)
            )
            self._reporter.close()
        if self._exporter is not None:
            self._exporter.stop(_FLUSH_SECONDS)
        self._otel.stop()
        if error is not None and not started.done():
            started.set_exception(error)
        elif error is not None:
            self._on_event_loop(lambda: _resolve(self.failed, error))

    def _build(self, group: RankGroup, facts: RankFacts) -> StepLoop:
        self._shape, self._moe = buffer_shape(self.config, facts), facts.moe
        self._reporter = build_reporter(
            self.config, self.model, boot_id=self.boot_id, metrics=self.metrics,
            sinks=self._sinks, free_bytes=facts.free_bytes,
        )  # fmt: skip
        return StepLoop(
            config=self.config, group=group, first=first_plan(self.model), metrics=self.metrics,
            reporter=self._reporter, deliver=self._deliver,
            tracer=self._otel.tracer,
        )  # fmt: skip

    def _deliver(self, deliveries: list[Delivery]) -> None:
        self._on_event_loop(lambda: deliver(deliveries))

    def _on_event_loop(self, call: Callable[[], None]) -> None:
        if self._asyncio is not None and not self._asyncio.is_closed():
            self._asyncio.call_soon_threadsafe(call)


def _unless_cancelled(future: "Future[T]", work: Callable[[], None]) -> Callable[[], None]:
    def run() -> None:
        if future.set_running_or_notify_cancel():
            work()

    return run


def _resolve(future: "asyncio.Future[BaseException]", error: BaseException) -> None:
    if not future.done():
        future.set_result(error)
