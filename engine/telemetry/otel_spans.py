"""Spans of sampled steps: request → step → router → permute → dispatch → expert_gemm → combine.

A step serves many requests, a span has one parent: a sampled step hangs under the first of its
requests and links the others. A request gets a root span when it first takes part in a sampled
step; its start is its arrival. Times are monotonic nanoseconds of the machine, shifted to Unix.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from opentelemetry.context import Context
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    Span,
    SpanContext,
    set_span_in_context,
)

from engine.telemetry.phase_timer import StepPhases

MOST_REQUESTS = 256
"""Requests that are traced at the same time."""
MOST_WAITING = 32
"""Steps and ends that wait to become spans; beyond it sampled steps are left out."""


@dataclass(frozen=True, slots=True)
class TracedRequest:
    """A request of a sampled step."""

    request_id: str
    arrived_ns: int


@dataclass(frozen=True, slots=True)
class SampledStep:
    """A sampled step as the scheduler saw it, and its phases on one rank."""

    requests: tuple[TracedRequest, ...]
    start_ns: int
    end_ns: int
    prefill_tokens: int
    decode_tokens: int
    phases: StepPhases


class NoTracer:
    """Traces nothing."""

    def step(self, sampled: SampledStep) -> None:
        """Ignore."""

    def finished(self, request_id: str, end_ns: int, *, output_tokens: int) -> None:
        """Ignore."""


class StepTracer:
    """Makes the spans on a thread of its own, so that a step waits for nothing.

    Args:
        provider: of the SDK, with its processors.
        unix_offset_ns: Unix time less monotonic time.
    """

    def __init__(self, provider: TracerProvider, unix_offset_ns: int) -> None:
        self._tracer = provider.get_tracer("trimtab.engine")
        self._offset = unix_offset_ns
        self._requests: dict[str, Span] = {}
        self._waiting = 0
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="spans")

    def step(self, sampled: SampledStep) -> None:
        """A sampled step has run."""
        if self._waiting < MOST_WAITING:
            self._waiting += 1
            self._thread.submit(self._emit, sampled)

    def finished(self, request_id: str, end_ns: int, *, output_tokens: int) -> None:
        """A request has ended; nothing happens when it was not traced."""
        self._thread.submit(self._end, request_id, end_ns, output_tokens)

    def close(self) -> None:
        """Finish what waits, and end the requests that still run."""
        self._thread.shutdown(wait=True)
        for span in self._requests.values():
            span.end()

    def _end(self, request_id: str, end_ns: int, output_tokens: int) -> None:
        span = self._requests.pop(request_id, None)
        if span is not None:
            span.set_attribute("gen_ai.usage.output_tokens", output_tokens)
            span.end(end_ns + self._offset)

    def _root(self, request: TracedRequest) -> Span | None:
        span = self._requests.get(request.request_id)
        if span is None and len(self._requests) < MOST_REQUESTS:
            span = self._tracer.start_span(
                "request", start_time=request.arrived_ns + self._offset,
                attributes={"trimtab.request.id": request.request_id},
            )  # fmt: skip
            self._requests[request.request_id] = span
        return span

    def _emit(self, sampled: SampledStep) -> None:
        self._waiting -= 1
        roots = [self._root(request) for request in sampled.requests]
        contexts = [span.get_span_context() for span in roots if span is not None]
        if not contexts:
            return
        step = self._tracer.start_span(
            "step",
            context=_under(contexts[0]),
            start_time=sampled.start_ns + self._offset,
            links=[Link(context) for context in contexts[1:]],
            attributes={
                "moe.step": sampled.phases.step,
                "moe.prefill_tokens": sampled.prefill_tokens,
                "moe.decode_tokens": sampled.decode_tokens,
            },
        )
        context = _under(step.get_span_context())
        for phase in sampled.phases.phases:
            self._tracer.start_span(
                phase.name, context=context, start_time=phase.start_ns + self._offset,
                attributes={"moe.layer": phase.layer},
            ).end(phase.end_ns + self._offset)  # fmt: skip
        step.end(sampled.end_ns + self._offset)


def _under(parent: SpanContext) -> Context:
    return set_span_in_context(NonRecordingSpan(parent))
