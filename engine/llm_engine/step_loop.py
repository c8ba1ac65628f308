"""The engine's step thread: schedule, hand every rank its plan, wait, hand tokens on.

Everything that touches ranks or the scheduler happens on this one thread. Others hand it work with
`post`; it hands tokens back to the event loop once a step.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Any

from contract.frame import SchedulerGauges
from engine.config import EngineConfig
from engine.errors import EngineError, NotReadyError
from engine.llm_engine.commits import Commits, LiveEdition
from engine.llm_engine.exchange import LivePlan, TokenEvent
from engine.llm_engine.frame_reporter import FrameReporter
from engine.llm_engine.hook_clock import HookClock
from engine.llm_engine.live_request import Delivery, FinishRate, LiveRequest
from engine.llm_engine.questions import Questions
from engine.llm_engine.rank_group import RankGroup
from engine.llm_engine.step_batches import pack, split_by_rank
from engine.llm_engine.traced_step import nanoseconds, traced_step
from engine.scheduling.scheduler import ScheduledSequence, ScheduleLimits, Scheduler
from engine.scheduling.sequence import Sequence
from engine.telemetry.frame_builder import FrameStatus
from engine.telemetry.otel_spans import NoTracer, StepTracer
from engine.telemetry.request_metrics import RequestMetrics
from engine.worker.messages import (
    Answer,
    Drained,
    FromRank,
    Prepared,
    Question,
    RunStep,
    StepDone,
)

Deliver = Callable[[list[Delivery]], None]


class StepLoop:
    """One engine's loop over steps.

    Args:
        config: fixed at start.
        group: the ranks, started.
        first: the plan that ranks run from their start.
        metrics: request and step observations.
        reporter: frames.
        deliver: takes a step's tokens to the event loop; safe from this thread.
        tracer: takes sampled steps and ended requests.
    """

    def __init__(
        self,
        *,
        config: EngineConfig,
        group: RankGroup,
        first: LivePlan,
        metrics: RequestMetrics,
        reporter: FrameReporter,
        deliver: Deliver,
        tracer: StepTracer | NoTracer,
    ) -> None:
        self._config = config
        self._group = group
        self._metrics = metrics
        self._reporter = reporter
        self._deliver = deliver
        self._tracer = tracer
        self.scheduler = Scheduler(
            num_ranks=config.ranks, kv_blocks=config.kv_blocks, block_tokens=config.block_tokens
        )
        self.commits = Commits(config.ranks, first)
        self.questions = Questions(config.ranks)
        self.hooks = HookClock()
        self.finish_rate = FinishRate()
        self.status = FrameStatus(config_generation=first.generation, config=first.config)
        self._inbox: deque[Callable[[], None]] = deque()
        self._requests: dict[str, LiveRequest] = {}
        self._done: dict[int, StepDone] = {}
        self._step = 0
        self._stopping = False

    def post(self, work: Callable[[], None]) -> None:
        """Have `work` done on the step thread between two steps; safe from any thread."""
        self._inbox.append(work)
        self._group.wake()

    def stop(self) -> None:
        """End `run` after the present step; safe from any thread."""
        self.post(self._stop)

    def run(self) -> None:
        """Step until stopped.

        Raises:
            RankFailedError: a rank died or stopped answering.
        """
        while not self._stopping:
            while self._inbox:
                self._inbox.popleft()()
            self._prepare_commit()
            self._report(time.monotonic())
            self._group.step_clock = not self.questions.any_open
            if self.scheduler.has_work or self.commits.is_ready:
                self._run_step()
            else:
                self._listen(self._reporter.seconds_left(time.monotonic()))

    def admit(self, request: LiveRequest) -> None:
        """Queue a request."""
        self._requests[request.sequence.request_id] = request
        self.scheduler.add(request.sequence)

    def abort(self, request_id: str) -> None:
        """End a request whose reader has gone."""
        if self._requests.pop(request_id, None) is not None:
            self.scheduler.abort(request_id)

    def commit(self, plan: LivePlan, future: "Future[Any]") -> None:
        """Prepare a plan on every rank, then switch."""
        self.commits.add(plan, future)

    def ask(self, question: Question, future: "Future[list[Any]]") -> None:
        """Ask every rank between two steps."""
        self._group.broadcast(self.questions.ask(question, future))

    def fail(self, error: EngineError) -> None:
        """Tell everyone who waits that the engine is going down."""
        while self._inbox:
            self._inbox.popleft()()
        self.commits.fail(error)
        self.questions.fail(error)
        waiting: list[Delivery] = [(each.queue, error) for each in self._requests.values()]
        for _ in waiting:
            self._metrics.count("failed")
        self._requests.clear()
        self._deliver(waiting)

    def _stop(self) -> None:
        self._stopping = True

    def _prepare_commit(self) -> None:
        message = self.commits.next_prepare()
        if message is not None:
            self._group.broadcast(message)

    def _report(self, now: float) -> None:
        if self._reporter.due(now):
            plan = self.commits.live.plan
            self._group.broadcast(
                self._reporter.begin(now, self._frame_status(plan), plan.lkg_bias)
            )

    def _frame_status(self, plan: LivePlan) -> FrameStatus:
        scheduler = self.scheduler
        return FrameStatus(
            config_generation=plan.generation,
            config=plan.config,
            configured_bias=plan.config.router_bias,
            live_bias=plan.config.router_bias,
            lkg_bias=plan.lkg_hash,
            bias_version=plan.bias_version,
            lkg_bias_version=plan.lkg_version,
            placement=plan.config.placement,
            epoch_seen=self.status.epoch_seen,
            frozen=self.status.frozen,
            probe_nll=self.status.probe_nll,
            gauges=SchedulerGauges(
                running=len(scheduler.running),
                queued=len(scheduler.waiting),
                kv_blocks_used_ratio=scheduler.blocks_used_ratio,
            ),
        )

    def _run_step(self) -> None:
        started = time.monotonic()
        edition = self.commits.for_next_step()
        knobs = edition.plan.config
        shares = self.scheduler.schedule(ScheduleLimits(knobs.chunk_size, knobs.max_concurrency))
        self._step += 1
        self._note_admitted(shares, edition.plan.generation, started)
        by_rank = split_by_rank(shares, self._config.ranks)
        num_decode = sum(share.is_decode for share in shares)
        num_prefill = sum(share.num_tokens for share in shares) - num_decode
        ticks = self.hooks.due(started)
        sampled = self._step % self._config.whatif_every == 0
        for rank, own in enumerate(by_rank):
            plan = RunStep(
                step=self._step, edition=edition.edition, phase=0 if num_prefill else 1,
                num_tokens=num_decode + num_prefill, sampled=sampled, hook_ticks=ticks,
                batch=pack(own),
            )  # fmt: skip
            self._group.send(rank, plan)
        self._await_step(started)
        finished = time.monotonic()
        self._switched(edition)
        self._metrics.observe_step(
            step=self._step, generation=edition.plan.generation, seconds=finished - started,
            prefill_tokens=num_prefill, decode_tokens=num_decode,
            sequence_ids=[share.sequence.request_id for share in shares],
        )  # fmt: skip
        if (phases := self._done[0].phases) is not None:
            self._tracer.step(traced_step(shares, self._requests, started, finished, phases))
        self._hand_on(shares, by_rank, edition.plan.generation, finished)

    def _await_step(self, started: float) -> None:
        self._done.clear()
        self._group.liveness.step_started(started)
        while len(self._done) < self._config.ranks:
            self._listen(self._config.watchdog_seconds)

    def _switched(self, edition: LiveEdition) -> None:
        if edition is self.commits.live:
            return
        if edition.plan.reload_bias:
            self.hooks.bias_reloaded()
        generations = {rank: done.generation for rank, done in self._done.items()}
        self.commits.stepped(self._step, edition, generations)

    def _note_admitted(
        self, shares: Iterable[ScheduledSequence], generation: int, now: float
    ) -> None:
        for share in shares:
            sequence = share.sequence
            if sequence.generation is None:
                sequence.generation = generation
                self._metrics.count("admitted")
                arrived = self._requests[sequence.request_id].arrived
                self._metrics.observe_queue(generation, now - arrived)

    def _hand_on(
        self,
        shares: tuple[ScheduledSequence, ...],
        by_rank: tuple[list[ScheduledSequence], ...],
        generation: int,
        now: float,
    ) -> None:
        token_ids: dict[str, int] = {}
        for rank, own in enumerate(by_rank):
            wanted = [share.sequence.request_id for share in own if share.wants_token]
            token_ids.update(zip(wanted, self._done[rank].token_ids, strict=True))
        deliveries: list[Delivery] = []
        for sequence in self.scheduler.complete(shares, token_ids):
            request = self._requests[sequence.request_id]
            self._observe_token(request, generation, now)
            reason = sequence.finish_reason
            event = TokenEvent(sequence.token_ids[-1], None if reason is None else reason.value)
            deliveries.append((request.queue, event))
            if reason is not None:
                self._observe_finish(request, now)
                del self._requests[sequence.request_id]
        if deliveries:
            self._deliver(deliveries)

    def _observe_token(self, request: LiveRequest, generation: int, now: float) -> None:
        if request.last_token is None:
            request.first_token = now
            self._metrics.observe_ttft(_admitted_under(request.sequence), now - request.arrived)
        else:
            self._metrics.observe_inter_token(generation, now - request.last_token)
        request.last_token = now

    def _observe_finish(self, request: LiveRequest, now: float) -> None:
        gaps = request.sequence.num_output_tokens - 1
        if gaps > 0 and request.first_token is not None:
            tpot = (now - request.first_token) / gaps
            self._metrics.observe_tpot(_admitted_under(request.sequence), tpot)
        self._metrics.observe_request(now - request.arrived)
        self._metrics.count("finished")
        self.finish_rate.finished(now)
        sequence = request.sequence
        self._tracer.finished(
            sequence.request_id, nanoseconds(now), output_tokens=sequence.num_output_tokens
        )

    def _listen(self, seconds: float) -> None:
        for rank, message in self._group.wait(seconds):
            self._heard(rank, message)

    def _heard(self, rank: int, message: FromRank) -> None:
        match message:
            case StepDone():
                self._done[rank] = message
                self._group.liveness.step_finished(rank)
            case Prepared():
                discard = self.commits.prepared(rank, message)
                if discard is not None:
                    self._group.broadcast(discard)
            case Drained():
                self._reporter.drained(rank, message)
            case Answer():
                self.questions.answered(rank, message)
                if not self.questions.any_open:
                    self._group.step_clock = True
                    self._group.liveness.step_clock_restarts(time.monotonic())
            case _:
                raise NotReadyError(f"rank {rank} said {type(message).__name__} out of turn")


def _admitted_under(sequence: Sequence) -> int:
    return sequence.generation if sequence.generation is not None else 0
