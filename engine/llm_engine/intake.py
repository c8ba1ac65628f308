"""Requests on their way in: checked, queued, and their tokens handed out again.

Lives on the event loop; the step thread only takes requests and puts tokens.
"""

from collections.abc import AsyncGenerator

from engine.config import EngineConfig
from engine.errors import BadRequestError, EngineError
from engine.llm_engine import clock
from engine.llm_engine.exchange import GenerationRequest, ModelFacts, TokenEvent
from engine.llm_engine.live_request import LiveRequest
from engine.llm_engine.step_loop import StepLoop
from engine.llm_engine.token_stream import TokenStream
from engine.scheduling.admission import AdmissionLimits, check_queue, check_request
from engine.scheduling.sequence import Sampling, Sequence, request_bucket
from engine.telemetry.request_metrics import RequestMetrics


class Intake:
    """Admits requests to a step loop.

    Args:
        config: bounds that were fixed at start.
        model: vocabulary, context and end-of-text tokens.
        metrics: counts what is refused.
        steps: where requests run.
    """

    def __init__(
        self, config: EngineConfig, model: ModelFacts, metrics: RequestMetrics, steps: StepLoop
    ) -> None:
        self._limits = AdmissionLimits(
            queue_limit=config.queue_limit, context_tokens=model.context_tokens,
            kv_blocks=config.kv_blocks, block_tokens=config.block_tokens,
            vocabulary=model.vocabulary,
        )  # fmt: skip
        self._eos_token_ids = frozenset(model.eos_token_ids)
        self._seed = config.seed
        self._metrics = metrics
        self._steps = steps
        self._live: set[str] = set()
        self._num_posted = 0
        self._num_taken = 0

    async def stream(self, request: GenerationRequest) -> AsyncGenerator[TokenEvent, None]:
        """Admit and stream; see `EngineCore.generate`."""
        live = self._admit(request)
        is_over = False
        try:
            while not is_over:
                event = await live.tokens.get()
                if isinstance(event, EngineError):
                    is_over = True
                    raise event
                is_over = event.finish_reason is not None
                yield event
        finally:
            self._live.discard(request.request_id)
            if not is_over:
                self._steps.post(lambda: self._steps.abort(request.request_id))

    def _admit(self, request: GenerationRequest) -> LiveRequest:
        if request.request_id in self._live:
            raise BadRequestError(
                f"request id {request.request_id!r} is in use", field="request_id",
                value=request.request_id,
            )  # fmt: skip
        check_request(self._limits, request.token_ids, request.max_tokens)
        arrived = clock.monotonic()
        try:
            rate = self._steps.desk.finish_rate.per_second(arrived)
            check_queue(self._limits, self._num_waiting(), rate)
        except EngineError:
            self._metrics.count("rejected")
            raise
        live = LiveRequest(self._sequence_of(request), TokenStream(), arrived)
        self._live.add(request.request_id)
        self._num_posted += 1
        self._steps.post(lambda: self._take(live))
        return live

    def _num_waiting(self) -> int:
        """Requests that do not run yet; never too few, though the step thread takes them."""
        in_flight = self._num_posted - self._num_taken
        return len(self._steps.scheduler.waiting) + in_flight

    def _take(self, live: LiveRequest) -> None:
        self._steps.admit(live)
        self._num_taken += 1

    def _sequence_of(self, request: GenerationRequest) -> Sequence:
        seed = request.seed
        if seed is None:
            seed = self._seed + int.from_bytes(request.request_id.encode()[-6:], "little")
        return Sequence(
            request_id=request.request_id,
            token_ids=list(request.token_ids),
            num_prompt_tokens=len(request.token_ids),
            max_tokens=request.max_tokens,
            eos_token_ids=frozenset() if request.ignore_eos else self._eos_token_ids,
            sampling=Sampling(request.temperature, request.top_p, seed),
            bucket=request_bucket(request.request_id),
        )
