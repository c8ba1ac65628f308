"""PromQL for panels, built from `contract.metrics`: a name that is not declared cannot be queried.

`$model` and `$engine` are the dashboards' variables. Ratios divide sums, never average ratios.
"""

from collections.abc import Sequence

from contract.bucket_labels import at_or_above
from contract.metrics import ENGINE_LABELS, METRICS, Kind, Metric, Plane

RATE = "[$__rate_interval]"


def metric(name: str) -> Metric:
    """The declared metric.

    Raises:
        KeyError: no such series in the contract.
    """
    if name not in METRICS:
        raise KeyError(f"{name!r} is not a series of contract.metrics")
    return METRICS[name]


def selector(name: str, **labels: str) -> str:
    """The series of the chosen engines; extra labels must be labels of the metric."""
    declared = metric(name)
    unknown = set(labels) - set(declared.all_labels)
    if unknown:
        raise KeyError(f"{name} has no label {', '.join(sorted(unknown))}")
    return f"{name}{{{_matchers(declared, labels)}}}"


def rate(name: str, by: Sequence[str] = (), **labels: str) -> str:
    """Summed rate of a counter, by the named labels."""
    if metric(name).kind is not Kind.COUNTER:
        raise KeyError(f"{name} is a {metric(name).kind}, rate needs a counter")
    return f"sum{_by(by)} (rate({selector(name, **labels)}{RATE}))"


def grown(name: str, window: str) -> str:
    """Increase of a counter over a window; the first event of a series, which is no increase, too.

    A counter by what happened has no series before it has happened once.
    """
    if metric(name).kind is not Kind.COUNTER:
        raise KeyError(f"{name} is a {metric(name).kind}, grown needs a counter")
    series = selector(name)
    return f"({series} unless {series} offset {window}) or increase({series}[{window}])"


def ratio(part: str, whole: str, by: Sequence[str] = ()) -> str:
    """Rate of one counter over the rate of another."""
    return f"{rate(part, by)} / {rate(whole, by)}"


def quantile(q: float, name: str, by: Sequence[str] = (), **labels: str) -> str:
    """Quantile of a histogram, by the named labels."""
    matchers = _histogram(name, labels)
    inner = f"sum{_by(('le', *by))} (rate({name}_bucket{{{matchers}}}{RATE}))"
    return f"histogram_quantile({q:g}, {inner})"


def share_under(name: str, bound: float, by: Sequence[str] = ()) -> str:
    """Share of a histogram's events at or under one of its bounds; exact, no interpolation.

    Another server's histogram that lacks the bound is counted at its next higher one. Each engine
    is counted at its own bound before they are added up.
    """
    declared = metric(name)
    if bound not in declared.buckets:
        raise KeyError(f"{bound:g} is not a bound of {name}: {declared.buckets}")
    matchers = _histogram(name, {})
    each = ", ".join(dict.fromkeys([*ENGINE_LABELS, *by]))
    buckets = f'{name}_bucket{{{matchers},le=~"{at_or_above(bound)}"}}'
    good = f"min by ({each}) (sum by (le, {each}) (rate({buckets}{RATE})))"
    return f"sum{_by(by)} ({good}) / sum{_by(by)} (rate({name}_count{{{matchers}}}{RATE}))"


def mean(name: str, by: Sequence[str] = (), **labels: str) -> str:
    """Mean of a histogram's events, by the named labels."""
    matchers = _histogram(name, labels)
    total = f"sum{_by(by)} (rate({name}_sum{{{matchers}}}{RATE}))"
    return f"{total} / sum{_by(by)} (rate({name}_count{{{matchers}}}{RATE}))"


def worst(name: str, by: Sequence[str] = ENGINE_LABELS, **labels: str) -> str:
    """Maximum of a gauge, by the named labels."""
    return f"max{_by(by)} ({selector(name, **labels)})"


def _histogram(name: str, labels: dict[str, str]) -> str:
    declared = metric(name)
    if declared.kind is not Kind.HISTOGRAM:
        raise KeyError(f"{name} is a {declared.kind}, not a histogram")
    return _matchers(declared, labels)


def _matchers(declared: Metric, labels: dict[str, str]) -> str:
    base = {}
    if declared.plane is Plane.ENGINE:
        base["model"] = "$model"
    if "engine" in declared.all_labels:
        base["engine"] = "$engine"
    parts = [f'{name}=~"{value}"' for name, value in base.items()]
    parts += [f'{name}="{value}"' for name, value in labels.items()]
    return ",".join(parts)


def _by(labels: Sequence[str]) -> str:
    return f" by ({', '.join(labels)})" if labels else ""
