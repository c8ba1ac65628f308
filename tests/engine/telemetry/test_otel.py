"""OpenTelemetry over real OTLP/HTTP: a receiver on loopback takes what the SDK sends."""

import time
from itertools import pairwise

import pytest

from engine.telemetry.otel import OpenTelemetry
from engine.telemetry.otel_metrics import otel_name
from engine.telemetry.otel_spans import SampledStep, TracedRequest
from engine.telemetry.phase_timer import NO_PHASES, PHASE_NAMES, PhaseTimer
from engine.telemetry.prometheus import EngineCollector
from tests.engine.telemetry.test_prometheus import full_frame
from tests.support.otlp_receiver import OtlpReceiver


@pytest.fixture
def receiver():
    running = OtlpReceiver()
    yield running
    running.close()


def attributes(point) -> dict[str, str]:
    return {each.key: each.value.string_value for each in point.attributes}


def telemetry(receiver: OtlpReceiver, collector: EngineCollector) -> OpenTelemetry:
    return OpenTelemetry(
        receiver.url, engine_id="e0", group="g", collect=collector.collect, interval_seconds=60
    )


def timed_step(step: int = 16):
    timer = PhaseTimer()
    for layer in range(2):
        mark = timer.marker(layer)
        for name in PHASE_NAMES:
            mark(name)
    return timer.take(step)


def test_every_series_arrives_exactly_as_it_is_on_the_metrics_page(receiver):
    collector = EngineCollector(lambda: {"sent": 1})
    frame = full_frame(2, 8, 2, 2)
    collector.observe(frame)
    sender = telemetry(receiver, collector)
    sender.start()
    sender.stop()
    metrics = receiver.metrics()
    assert set(metrics) == {otel_name(family.name) for family in collector.collect()}
    overflow = metrics["moe.overflow_assignments"].sum
    assert overflow.is_monotonic
    assert {attributes(p)["layer"]: p.as_double or p.as_int for p in overflow.data_points} == {
        str(i): n for i, n in enumerate(frame.arrays["overflow"])
    }
    (ttft,) = metrics["gen_ai.server.time_to_first_token"].histogram.data_points
    assert metrics["gen_ai.server.time_to_first_token"].unit == "s"
    assert ttft.count == frame.arrays["ttft"].sum() == sum(ttft.bucket_counts)
    assert len(ttft.bucket_counts) == len(ttft.explicit_bounds) + 1
    assert not ttft.HasField("min")
    assert metrics["moe.router.bias_distance"].gauge.data_points[0].as_double == 0.25


def test_no_metrics_are_sent_before_the_first_frame(receiver):
    sender = telemetry(receiver, EngineCollector())
    sender.start()
    sender.stop()
    assert receiver.bodies["/v1/metrics"] == []


def test_a_sampled_step_becomes_a_tree_under_its_first_request(receiver):
    sender = telemetry(receiver, EngineCollector())
    now = time.monotonic_ns()
    requests = (TracedRequest("r1", now - 5_000_000), TracedRequest("r2", now - 4_000_000))
    sender.tracer.step(SampledStep(requests, now - 1_000_000, now, 3, 1, timed_step()))
    sender.tracer.finished("r1", now + 1_000_000, output_tokens=7)
    sender.tracer.finished("r2", now + 1_000_000, output_tokens=9)
    sender.tracer.finished("never traced", now, output_tokens=1)
    sender.start()
    sender.stop()
    spans = receiver.spans()
    by_id = {span.span_id: span for span in spans}
    roots = [span for span in spans if span.name == "request"]
    (step,) = [span for span in spans if span.name == "step"]
    assert len(roots) == 2
    assert by_id[step.parent_span_id].name == "request"
    assert [link.span_id for link in step.links] == [
        root.span_id for root in roots if root.span_id != step.parent_span_id
    ]
    phases = [span for span in spans if span.parent_span_id == step.span_id]
    phases.sort(key=lambda span: (span.start_time_unix_nano, span.end_time_unix_nano))
    assert [span.name for span in phases] == list(PHASE_NAMES) * 2
    layer = phases[: len(PHASE_NAMES)]
    assert all(a.end_time_unix_nano == b.start_time_unix_nano for a, b in pairwise(layer))
    assert abs(roots[0].start_time_unix_nano - time.time_ns()) < 60e9


def test_a_request_that_took_part_in_no_sampled_step_has_no_span(receiver):
    sender = telemetry(receiver, EngineCollector())
    sender.tracer.finished("r1", time.monotonic_ns(), output_tokens=1)
    sender.start()
    sender.stop()
    assert receiver.spans() == []


def test_names_keep_the_conventions():
    assert otel_name("gen_ai_server_time_to_first_token_seconds") == (
        "gen_ai.server.time_to_first_token"
    )
    assert otel_name("moe_engine_queue_seconds") == "moe.engine.queue_seconds"
    assert otel_name("moe_router_bias_version") == "moe.router.bias_version"
    assert otel_name("moe_all_to_all_bytes") == "moe.all_to_all_bytes"


def test_phases_of_a_step_that_is_not_timed_cost_nothing():
    mark = NO_PHASES.marker(0)
    mark("router")
    assert mark is NO_PHASES.marker(1)
