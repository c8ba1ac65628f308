"""A sampled step as the tracer takes it."""

from collections.abc import Mapping

from engine.llm_engine.live_request import LiveRequest
from engine.scheduling.scheduler import ScheduledSequence
from engine.telemetry.otel_spans import SampledStep, TracedRequest
from engine.telemetry.phase_timer import StepPhases


def traced_step(
    shares: tuple[ScheduledSequence, ...], requests: Mapping[str, LiveRequest],
    started: float, finished: float, phases: StepPhases,
) -> SampledStep:  # fmt: skip
    """Monotonic seconds in, nanoseconds out."""
    decode = sum(share.is_decode for share in shares)
    return SampledStep(
        requests=tuple(
            TracedRequest(request_id, nanoseconds(requests[request_id].arrived))
            for share in shares
            if (request_id := share.sequence.request_id) in requests
        ),
        start_ns=nanoseconds(started),
        end_ns=nanoseconds(finished),
        prefill_tokens=sum(share.num_tokens for share in shares) - decode,
        decode_tokens=decode,
        phases=phases,
    )


def nanoseconds(seconds: float) -> int:
    """Whole nanoseconds of a monotonic time."""
    return int(seconds * 1e9)
