"""A real engine on two ranks sends its spans and series to an OTLP endpoint."""

from engine.telemetry.phase_timer import PHASE_NAMES
from tests.support.engines import TinyEngine
from tests.support.otlp_receiver import OtlpReceiver
from tests.support.tiny_checkpoint import write_tiny_checkpoint


async def test_sampled_steps_of_a_request_arrive_as_spans(tmp_path):
    receiver = OtlpReceiver()
    engine = TinyEngine(
        write_tiny_checkpoint(tmp_path / "tiny"), whatif_every=2, otlp_endpoint=receiver.url
    )
    await engine.start()
    await engine.complete("r1", max_tokens=8)
    await engine.until(lambda: engine.frames)
    await engine.stop()
    spans = receiver.spans()
    receiver.close()
    (request,) = [span for span in spans if span.name == "request"]
    steps = [span for span in spans if span.name == "step"]
    assert steps
    assert {step.parent_span_id for step in steps} == {request.span_id}
    assert {span.name for span in spans if span.parent_span_id == steps[0].span_id} == set(
        PHASE_NAMES
    )
    assert "gen_ai.server.time_to_first_token" in receiver.metrics()
