"""The engine's step thread: schedule, hand every rank its plan, wait, hand tokens on.

Everything that touches ranks or the scheduler happens on this one thread. Others hand it work with
`post`; it hands tokens back to the event loop once a step, while the ranks run the next one.
"""

import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from contract.frame import SchedulerGauges
from engine.config import EngineConfig
from engine.errors import EngineError, NotReadyError
from engine.llm_engine.commits import Commits, LiveEdition
from engine.llm_engine.exchange import LivePlan
from engine.llm_engine.frame_reporter import FrameReporter
from engine.llm_engine.hook_clock import HookClock
from engine.llm_engine.live_request import LiveRequest
from engine.llm_engine.questions import Questions
from engine.llm_engine.rank_group import RankGroup
from engine.llm_engine.request_desk import Deliver, RequestDesk
from engine.llm_engine.step_batches import pack, split_by_rank
from engine.llm_engine.traced_step import traced_step
from engine.scheduling.scheduler import ScheduledSequence, ScheduleLimits, Scheduler
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
        self._tracer = tracer
        self.scheduler = Scheduler(
            num_ranks=config.ranks, kv_blocks=config.kv_blocks, block_tokens=config.block_tokens
        )
        self.commits = Commits(config.ranks, first)
        self.questions = Questions(config.ranks)
        self.hooks = HookClock()
        self.desk = RequestDesk(metrics, deliver, tracer)
        self.status = FrameStatus(config_generation=first.generation, config=first.config)
        self._inbox: deque[Callable[[], None]] = deque()
        self._done: dict[int, StepDone] = {}
        self._step = 0
        self._stopping = False
        self.quiet = False
        """Counts no step and sends no frame: only `trimtab bench overhead` sets it."""

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
                self.desk.hand_on()
                self._listen(self._seconds_to_report())
        self.desk.hand_on()

    def admit(self, request: LiveRequest) -> None:
        """Queue a request."""
        self.desk.add(request)
        self.scheduler.add(request.sequence)

    def abort(self, request_id: str) -> None:
        """End a request whose reader has gone."""
        if self.desk.remove(request_id):
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
        self.desk.fail(error)

    def _stop(self) -> None:
        self._stopping = True

    def _prepare_commit(self) -> None:
        message = self.commits.next_prepare()
        if message is not None:
            self._group.broadcast(message)

    def _report(self, now: float) -> None:
        if self._reporter.due(now) and not self.quiet:
            self.desk.hand_on()
            plan = self.commits.live.plan
            self._group.broadcast(
                self._reporter.begin(now, self._frame_status(plan), plan.lkg_bias)
            )

    def _seconds_to_report(self) -> float:
        if self.quiet:
            return self._config.frame_seconds
        return self._reporter.seconds_left(time.monotonic())

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
        generation = edition.plan.generation
        self.desk.started((share.sequence for share in shares), generation, started)
        by_rank = split_by_rank(shares, self._config.ranks)
        num_decode = sum(share.is_decode for share in shares)
        num_prefill = sum(share.num_tokens for share in shares) - num_decode
        ticks = self.hooks.due(started)
        records = self._config.recording and not self.quiet
        sampled = records and self._step % self._config.whatif_every == 0
        for rank, own in enumerate(by_rank):
            plan = RunStep(
                step=self._step, edition=edition.edition, phase=0 if num_prefill else 1,
                num_tokens=num_decode + num_prefill, sampled=sampled, records=records,
                hook_ticks=ticks, batch=pack(own),
            )  # fmt: skip
            self._group.send(rank, plan)
        self.desk.hand_on()
        self._await_step(started)
        finished = time.monotonic()
        self._switched(edition)
        self._metrics.observe_step(
            step=self._step, generation=generation, seconds=finished - started,
            prefill_tokens=num_prefill, decode_tokens=num_decode,
            sequence_ids=[share.sequence.request_id for share in shares],
        )  # fmt: skip
        if (phases := self._done[0].phases) is not None:
            self._tracer.step(traced_step(shares, self.desk.requests, started, finished, phases))
        advanced = self.scheduler.complete(shares, self._drawn(by_rank))
        self.desk.advanced(advanced, generation, finished)

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

    def _drawn(self, by_rank: tuple[list[ScheduledSequence], ...]) -> dict[str, int]:
        """The token of each sequence that wanted one, by request id."""
        token_ids: dict[str, int] = {}
        for rank, own in enumerate(by_rank):
            wanted = [share.sequence.request_id for share in own if share.wants_token]
            token_ids.update(zip(wanted, self._done[rank].token_ids, strict=True))
        return token_ids

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
