"""The engine core: ranks, scheduler and telemetry behind the coroutines that a server needs."""

import asyncio
import logging
import sys
import threading
import uuid
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, TypeVar

from contract.frame import Role
from contract.runtime_config import RuntimeConfig
from engine.config import EngineConfig
from engine.errors import BadRequestError, EngineError, NotReadyError
from engine.llm_engine import clock
from engine.llm_engine.exchange import (
    Bias,
    CommitReceipt,
    GenerationRequest,
    LivePlan,
    ModelFacts,
    TokenEvent,
)
from engine.llm_engine.facts import buffer_shape, model_facts
from engine.llm_engine.frame_reporter import FrameReporter, FrameSink, hash_of
from engine.llm_engine.knobs import check_knobs
from engine.llm_engine.live_request import Delivery, LiveRequest, deliver
from engine.llm_engine.liveness import Liveness
from engine.llm_engine.rank_group import RankGroup
from engine.llm_engine.step_loop import StepLoop
from engine.scheduling.admission import AdmissionLimits, check_queue, check_request
from engine.scheduling.sequence import Sampling, Sequence, request_bucket
from engine.telemetry.exporter import FrameExporter
from engine.telemetry.frame_builder import EngineIdentity, FrameBuilder
from engine.telemetry.prometheus import EngineCollector
from engine.telemetry.request_metrics import RequestMetrics
from engine.worker.messages import Probe, Question, RankFacts, ReadBias, SetHook
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
        exporter = self._exporter = _exporter(config, self.boot_id)
        self.collector = EngineCollector(None if exporter is None else lambda: exporter.counts)
        self._sinks = (self.collector.observe, *sinks)
        if exporter is not None:
            self._sinks = (exporter.submit, *self._sinks)
        self._thread: threading.Thread | None = None
        self._asyncio: asyncio.AbstractEventLoop | None = None
        self._steps: StepLoop | None = None
        self._group: RankGroup | None = None
        self._streams: set[str] = set()
        self._num_posted = 0
        self._num_taken = 0
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
        live = self._admit(request)
        steps = self._running()
        is_over = False
        try:
            while not is_over:
                event = await live.queue.get()
                if isinstance(event, EngineError):
                    is_over = True
                    raise event
                is_over = event.finish_reason is not None
                yield event
        finally:
            self._streams.discard(request.request_id)
            if not is_over:
                steps.post(lambda: steps.abort(request.request_id))

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

    async def probe(self) -> tuple[float, int]:
        """Negative log-likelihood of the fixed probe text (nats per token) and its tokens."""
        answers: list[tuple[float, int]] = await self._ask(Probe())
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

    @property
    def active_hooks(self) -> tuple[str, ...]:
        """Hooks that run; a commit that reloads the bias ends those that move it."""
        return () if self._steps is None else self._steps.hooks.active

    def _admit(self, request: GenerationRequest) -> LiveRequest:
        steps = self._running()
        if request.request_id in self._streams:
            raise BadRequestError(
                f"request id {request.request_id!r} is in use", field="request_id",
                value=request.request_id,
            )  # fmt: skip
        check_request(self._limits, request.token_ids, request.max_tokens)
        arrived = clock.monotonic()
        try:
            waiting = len(steps.scheduler.waiting) + self._num_posted - self._num_taken
            check_queue(self._limits, waiting, steps.finish_rate.per_second(arrived))
        except EngineError:
            self.metrics.count("rejected")
            raise
        live = LiveRequest(self._sequence_of(request), asyncio.Queue(), arrived)
        self._streams.add(request.request_id)
        self._num_posted += 1
        steps.post(lambda: self._take(steps, live))
        return live

    def _take(self, steps: StepLoop, live: LiveRequest) -> None:
        steps.admit(live)
        self._num_taken += 1

    def _sequence_of(self, request: GenerationRequest) -> Sequence:
        seed = request.seed
        if seed is None:
            seed = self.config.seed + int.from_bytes(request.request_id.encode()[-6:], "little")
        return Sequence(
            request_id=request.request_id,
            token_ids=list(request.token_ids),
            num_prompt_tokens=len(request.token_ids),
            max_tokens=request.max_tokens,
            eos_token_ids=frozenset(() if request.ignore_eos else self.model.eos_token_ids),
            sampling=Sampling(request.temperature, request.top_p, seed),
            bucket=request_bucket(request.request_id),
        )

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
        self._steps = steps = self._build(group, facts)
        self._why_not = ""
        group.check_cancelled()
        if self._exporter is not None:
            self._exporter.start()
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
        if error is not None and not started.done():
            started.set_exception(error)
        elif error is not None:
            self._on_event_loop(lambda: _resolve(self.failed, error))

    def _build(self, group: RankGroup, facts: RankFacts) -> StepLoop:
        config, model = self.config, self.model
        self._shape = buffer_shape(config, facts)
        self._limits = AdmissionLimits(
            queue_limit=config.queue_limit, context_tokens=model.context_tokens,
            kv_blocks=config.kv_blocks, block_tokens=config.block_tokens,
            vocabulary=model.vocabulary,
        )  # fmt: skip
        identity = EngineIdentity(
            engine_id=config.engine_id, group=config.group, model=model.name,
            boot_id=self.boot_id, layers=model.moe_layers, experts=model.experts,
            top_k=model.top_k, ranks=config.ranks, role=Role(config.role),
            expert_set_hash=model.expert_set_hash,
        )  # fmt: skip
        self._reporter = FrameReporter(
            num_ranks=config.ranks, builder=FrameBuilder(identity), metrics=self.metrics,
            frame_seconds=config.frame_seconds, period_seconds=config.period_seconds,
            sinks=self._sinks, unix_seconds=clock.unix_seconds, now=clock.monotonic(),
            free_bytes=facts.free_bytes,
        )  # fmt: skip
        bias = model.checkpoint_bias
        first = LivePlan(
            generation=0, bias=bias,
            config=RuntimeConfig(router_bias=None if bias is None else hash_of(bias)),
        )  # fmt: skip
        return StepLoop(
            config=config, group=group, first=first, metrics=self.metrics,
            reporter=self._reporter, deliver=self._deliver,
        )  # fmt: skip

    def _deliver(self, deliveries: list[Delivery]) -> None:
        self._on_event_loop(lambda: deliver(deliveries))

    def _on_event_loop(self, call: Callable[[], None]) -> None:
        if self._asyncio is not None and not self._asyncio.is_closed():
            self._asyncio.call_soon_threadsafe(call)


def _exporter(config: EngineConfig, boot_id: str) -> FrameExporter | None:
    if config.telemetry_url is None:
        return None
    return FrameExporter(
        config.telemetry_url, config.telemetry_token, engine_id=config.engine_id,
        boot_id=boot_id, frames=config.frame_buffer,
    )  # fmt: skip


def _unless_cancelled(future: "Future[T]", work: Callable[[], None]) -> Callable[[], None]:
    def run() -> None:
        if future.set_running_or_notify_cancel():
            work()

    return run


def _resolve(future: "asyncio.Future[BaseException]", error: BaseException) -> None:
    if not future.done():
        future.set_result(error)
