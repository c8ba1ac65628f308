"""Metric families of prometheus-client from `contract.metrics`, with an engine's base labels."""

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from contract.frame import HISTOGRAM_BOUNDS
from contract.metrics import METRICS

Rows = Iterable[tuple[tuple[str, ...], float]]


def by_index(values: npt.NDArray[np.generic]) -> Rows:
    """Label values "0", "1", … for a vector: layers or ranks."""
    return [((str(i),), value) for i, value in enumerate(values.tolist())]


class Families:
    """Builds families of one engine.

    Args:
        model, engine_id: values of the base labels.
    """

    def __init__(self, model: str, engine_id: str) -> None:
        self._base = (model, engine_id)

    def counter(self, name: str, rows: Rows) -> CounterMetricFamily:
        """A counter; `rows` are own label values and totals."""
        metric = METRICS[name]
        family = CounterMetricFamily(name, metric.help, labels=metric.all_labels)
        for labels, value in rows:
            family.add_metric((*self._base, *labels), value)
        return family

    def gauge(self, name: str, rows: Rows) -> GaugeMetricFamily:
        """A gauge; `rows` are own label values and values."""
        metric = METRICS[name]
        family = GaugeMetricFamily(name, metric.help, labels=metric.all_labels)
        for labels, value in rows:
            family.add_metric((*self._base, *labels), value)
        return family

    def histogram(
        self, name: str, bounds: str, rows: Iterable[tuple[tuple[str, ...], "Cells", float]]
    ) -> HistogramMetricFamily:
        """A histogram on the exposed bounds of `name`.

        Args:
            name: of the contract.
            bounds: key of `HISTOGRAM_BOUNDS` that the cells have; the exposed are a subset.
            rows: own label values, int64 cells, sum.
        """
        metric = METRICS[name]
        family = HistogramMetricFamily(name, metric.help, labels=metric.all_labels)
        full = HISTOGRAM_BOUNDS[bounds]
        kept = [full.index(bound) for bound in metric.buckets]
        names = [repr(float(bound)) for bound in metric.buckets]
        for labels, cells, total in rows:
            cumulative = np.cumsum(cells)
            counts = cumulative[kept].tolist()
            buckets: Sequence[tuple[str, float]] = [
                *zip(names, counts, strict=True),
                ("+Inf", int(cumulative[-1])),
            ]
            family.add_metric((*self._base, *labels), buckets=buckets, sum_value=total)
        return family


Cells = npt.NDArray[np.int64]
