"""The series of /metrics as OpenTelemetry metrics, pushed to any OTLP/HTTP endpoint.

The SDK's own instruments would cost 7 µs an observation and fold label sets past 2,000 into one;
totals exist already, so they become the SDK's data points, exact to the cell, and its exporter
sends them. Names: `moe_x` → `moe.x`, `gen_ai_server_x_seconds` → `gen_ai.server.x` (conventions).
"""

import logging
import threading
from collections.abc import Callable, Iterable

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricExportResult,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from prometheus_client import Metric as Family
from prometheus_client.samples import Sample

log = logging.getLogger(__name__)

SCOPE = InstrumentationScope("trimtab.engine")
_UNITS = (("_seconds", "s"), ("_bytes", "By"), ("_ratio", "1"), ("_tokens", "{token}"))


def otel_name(name: str) -> str:
    """The OpenTelemetry name of a series family (without `_total`)."""
    if name.startswith("gen_ai_server_"):
        return "gen_ai.server." + name.removeprefix("gen_ai_server_").removesuffix("_seconds")
    for prefix in ("moe_engine_", "moe_router_", "moe_"):
        if name.startswith(prefix):
            return prefix.replace("_", ".") + name.removeprefix(prefix)
    return name


def to_metrics(families: Iterable[Family], start_ns: int, now_ns: int) -> list[Metric]:
    """Data points of collected families; totals since `start_ns`, both Unix nanoseconds."""
    return [
        Metric(
            name=otel_name(family.name), description=family.documentation, unit=_unit(family.name),
            data=_data(family, start_ns, now_ns),
        )
        for family in families
    ]  # fmt: skip


def _data(family: Family, start_ns: int, now_ns: int) -> Sum | Gauge | Histogram:
    if family.type == "histogram":
        points = _histogram_points(family, start_ns, now_ns)
        return Histogram(points, AggregationTemporality.CUMULATIVE)
    numbers = [
        NumberDataPoint(
            attributes=dict(sample.labels), start_time_unix_nano=start_ns,
            time_unix_nano=now_ns, value=sample.value,
        )
        for sample in family.samples
    ]  # fmt: skip
    if family.type == "counter":
        return Sum(numbers, AggregationTemporality.CUMULATIVE, is_monotonic=True)
    return Gauge(numbers)


def _histogram_points(family: Family, start_ns: int, now_ns: int) -> list[HistogramDataPoint]:
    by_labels: dict[tuple[tuple[str, str], ...], list[Sample]] = {}
    for sample in family.samples:
        labels = tuple((name, value) for name, value in sample.labels.items() if name != "le")
        by_labels.setdefault(labels, []).append(sample)
    return [
        _histogram_point(dict(labels), samples, start_ns, now_ns)
        for labels, samples in by_labels.items()
    ]


def _histogram_point(
    labels: dict[str, str], samples: list[Sample], start_ns: int, now_ns: int
) -> HistogramDataPoint:
    buckets = [sample for sample in samples if sample.name.endswith("_bucket")]
    total = next((sample.value for sample in samples if sample.name.endswith("_sum")), 0.0)
    cumulative = [int(sample.value) for sample in buckets]
    cells = [now - before for now, before in zip(cumulative, [0, *cumulative[:-1]], strict=True)]
    return HistogramDataPoint(
        attributes=labels, start_time_unix_nano=start_ns, time_unix_nano=now_ns,
        count=cumulative[-1], sum=total, bucket_counts=cells,
        explicit_bounds=[float(sample.labels["le"]) for sample in buckets[:-1]],
        min=None, max=None,  # type: ignore[arg-type]  # optional on the wire, and not known
    )  # fmt: skip


def _unit(name: str) -> str:
    return next((unit for suffix, unit in _UNITS if name.endswith(suffix)), "")


class MetricsPusher:
    """Pushes what `collect` gives, every `interval_seconds`, from a thread of its own.

    Args:
        exporter: where to.
        resource: who the engine is.
        collect: the families, e.g. `EngineCollector.collect`.
        unix_ns: wall clock in nanoseconds.
        interval_seconds: between two pushes.
    """

    def __init__(
        self, exporter: OTLPMetricExporter, resource: Resource,
        collect: Callable[[], Iterable[Family]], unix_ns: Callable[[], int],
        interval_seconds: float = 10.0,
    ) -> None:  # fmt: skip
        self._exporter = exporter
        self._resource = resource
        self._collect = collect
        self._unix_ns = unix_ns
        self._interval = interval_seconds
        self._start_ns = unix_ns()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="otlp-metrics", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Push once more, end the thread."""
        self._stopping.set()
        self._thread.join(timeout=10.0)
        self.push()
        self._exporter.shutdown()

    def push(self) -> bool:
        """Send the present totals; False, with a line in the log, when that failed."""
        metrics = to_metrics(self._collect(), self._start_ns, self._unix_ns())
        if not metrics:
            return True
        scope = ScopeMetrics(scope=SCOPE, metrics=metrics, schema_url="")
        data = MetricsData([ResourceMetrics(self._resource, [scope], schema_url="")])
        sent = self._exporter.export(data) is MetricExportResult.SUCCESS
        if not sent:
            log.warning("metrics were not accepted by the OTLP endpoint")
        return sent

    def _run(self) -> None:
        while not self._stopping.wait(self._interval):
            self.push()
