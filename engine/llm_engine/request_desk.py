"""The live requests of the step thread: their tokens are observed and handed to their readers."""

from collections.abc import Callable, Iterable, Mapping

from engine.errors import EngineError
from engine.llm_engine.exchange import TokenEvent
from engine.llm_engine.live_request import Delivery, FinishRate, LiveRequest
from engine.llm_engine.traced_step import nanoseconds
from engine.scheduling.sequence import Sequence
from engine.telemetry.otel_spans import NoTracer, StepTracer
from engine.telemetry.request_metrics import RequestMetrics

Deliver = Callable[[list[Delivery]], None]


class RequestDesk:
    """Requests by id, from admission to their last token.

    Args:
        metrics: takes TTFT, TPOT, gaps and outcomes.
        deliver: takes a step's tokens to the event loop; safe from the step thread.
        tracer: takes ended requests.
    """

    def __init__(
        self, metrics: RequestMetrics, deliver: Deliver, tracer: StepTracer | NoTracer
    ) -> None:
        self._metrics = metrics
        self._deliver = deliver
        self._tracer = tracer
        self._requests: dict[str, LiveRequest] = {}
        self._advanced: list[tuple[LiveRequest, TokenEvent]] = []
        self._advanced_at = 0.0
        self._advanced_under = 0
        self.finish_rate = FinishRate()

    @property
    def requests(self) -> Mapping[str, LiveRequest]:
        """Live requests by id."""
        return self._requests

    def add(self, request: LiveRequest) -> None:
        """A request was queued."""
        self._requests[request.sequence.request_id] = request

    def remove(self, request_id: str) -> bool:
        """A reader has gone; False when the request was over already."""
        return self._requests.pop(request_id, None) is not None

    def started(self, sequences: Iterable[Sequence], generation: int, now: float) -> None:
        """Sequences of a step; those that run for the first time were admitted now."""
        for sequence in sequences:
            if sequence.generation is None:
                sequence.generation = generation
                self._metrics.count("admitted")
                arrived = self._requests[sequence.request_id].arrived
                self._metrics.observe_queue(generation, now - arrived)

    def advanced(self, sequences: Iterable[Sequence], generation: int, now: float) -> None:
        """Sequences that took a token in the step that ended now; `hand_on` tells the rest."""
        self._advanced_at, self._advanced_under = now, generation
        for sequence in sequences:
            reason = sequence.finish_reason
            event = TokenEvent(sequence.token_ids[-1], None if reason is None else reason.value)
            request = self._requests[sequence.request_id]
            if reason is not None:
                del self._requests[sequence.request_id]
            self._advanced.append((request, event))

    def hand_on(self) -> None:
        """Give the last step's tokens to their readers and observe them, once."""
        if not self._advanced:
            return
        advanced, self._advanced = self._advanced, []
        self._deliver([(request.tokens, event) for request, event in advanced])
        self._observe_tokens([request for request, _ in advanced])
        for request, event in advanced:
            if event.finish_reason is not None:
                self._observe_finish(request)

    def fail(self, error: EngineError) -> None:
        """Tell every reader that the engine is going down."""
        self.hand_on()
        waiting: list[Delivery] = [(each.tokens, error) for each in self._requests.values()]
        for _ in waiting:
            self._metrics.count("failed")
        self._requests.clear()
        self._deliver(waiting)

    def _observe_tokens(self, requests: Iterable[LiveRequest]) -> None:
        now = self._advanced_at
        gaps: list[float] = []
        for request in requests:
            if request.last_token is None:
                request.first_token = now
                self._metrics.observe_ttft(_admitted_under(request.sequence), now - request.arrived)
            else:
                gaps.append(now - request.last_token)
            request.last_token = now
        if gaps:
            self._metrics.observe_inter_tokens(self._advanced_under, gaps)

    def _observe_finish(self, request: LiveRequest) -> None:
        now, sequence = self._advanced_at, request.sequence
        gaps = sequence.num_output_tokens - 1
        if gaps > 0 and request.first_token is not None:
            tpot = (now - request.first_token) / gaps
            self._metrics.observe_tpot(_admitted_under(sequence), tpot)
        self._metrics.observe_request(now - request.arrived)
        self._metrics.count("finished")
        self.finish_rate.finished(now)
        self._tracer.finished(
            sequence.request_id, nanoseconds(now), output_tokens=sequence.num_output_tokens
        )


def _admitted_under(sequence: Sequence) -> int:
    return sequence.generation if sequence.generation is not None else 0
