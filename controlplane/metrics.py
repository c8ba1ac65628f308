"""The control plane's own instruments, built from `contract.metrics` on a registry of its own."""

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)

from contract.metrics import METRICS, Kind, Metric, Plane


class Instruments:
    """Every `trimtab_*` series by its contract name. Safe to use from any thread."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self._counters: dict[str, Counter] = {}
        self._gauges: dict[str, Gauge] = {}
        self._histograms: dict[str, Histogram] = {}
        for metric in METRICS.values():
            if metric.plane is Plane.CONTROL:
                self._declare(metric)

    def counter(self, name: str) -> Counter:
        """The counter of that name; KeyError when the contract has none."""
        return self._counters[name]

    def gauge(self, name: str) -> Gauge:
        """The gauge of that name; KeyError when the contract has none."""
        return self._gauges[name]

    def histogram(self, name: str) -> Histogram:
        """The histogram of that name; KeyError when the contract has none."""
        return self._histograms[name]

    def render(self) -> bytes:
        """Prometheus text format of all series."""
        return generate_latest(self.registry)

    def _declare(self, metric: Metric) -> None:
        match metric.kind:
            case Kind.COUNTER:
                self._counters[metric.name] = Counter(
                    metric.name, metric.help, metric.labels, registry=self.registry
                )
            case Kind.GAUGE:
                self._gauges[metric.name] = Gauge(
                    metric.name, metric.help, metric.labels, registry=self.registry
                )
            case Kind.HISTOGRAM:
                self._histograms[metric.name] = Histogram(
                    metric.name, metric.help, metric.labels, registry=self.registry,
                    buckets=metric.buckets,
                )  # fmt: skip
