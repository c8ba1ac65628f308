"""OpenTelemetry out of an engine: metrics and spans to one OTLP/HTTP endpoint that the user sets.

Headers, certificates, timeouts and compression follow the SDK's own `OTEL_EXPORTER_OTLP_*`.
"""

import time
from collections.abc import Callable, Iterable

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from prometheus_client import Metric

from engine.telemetry.otel_metrics import MetricsPusher
from engine.telemetry.otel_spans import StepTracer


class OpenTelemetry:
    """One engine's exporters; `tracer` takes steps and requests, metrics go by themselves.

    Args:
        endpoint: base URL, e.g. "http://127.0.0.1:4318"; the signal's path is appended.
        engine_id, group: of the resource.
        collect: families of /metrics.
        interval_seconds: between two pushes of metrics.
        unix_ns: wall clock in nanoseconds.
    """

    def __init__(
        self, endpoint: str, *, engine_id: str, group: str,
        collect: Callable[[], Iterable[Metric]], interval_seconds: float = 10.0,
        unix_ns: Callable[[], int] = time.time_ns,
    ) -> None:  # fmt: skip
        resource = Resource.create(
            {
                "service.name": "trimtab-engine",
                "service.instance.id": engine_id,
                "service.namespace": group,
            }
        )
        base = endpoint.rstrip("/")
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(
            BatchSpanProcessor(OTLPSpanExporter(f"{base}/v1/traces"), schedule_delay_millis=1000)
        )
        self._metrics = MetricsPusher(
            OTLPMetricExporter(f"{base}/v1/metrics"), resource, collect, unix_ns, interval_seconds
        )
        self.tracer = StepTracer(self._provider, unix_ns() - time.monotonic_ns())

    def start(self) -> None:
        """Start pushing."""
        self._metrics.start()

    def stop(self) -> None:
        """Send what is left and end; waits for a bounded time."""
        self.tracer.close()
        self._provider.shutdown()
        self._metrics.stop()
