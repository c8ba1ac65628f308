"""Prometheus text → readings by series. Pure; bad values are left out and said so.

An engine has several series of one name: a data-parallel engine or a kind of request each. They
are kept apart here, because each one's counter restarts on its own; ranks of one tensor-parallel
group report the same requests, so only the first rank of a group is read.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families

from controlplane.errors import TrimtabError
from controlplane.scraping.names import Names

MAX_SERIES = 20_000
"""Samples of one scrape that are looked at: an endpoint with more is not an engine's."""
_LARGEST = 2**53
_RANKS = ("pp_rank", "tp_rank", "moe_ep_rank")
_MODEL = "model_name"

Labels = tuple[tuple[str, str], ...]
SeriesKey = tuple[str, Labels]


class ExpositionError(TrimtabError):
    """A body that is no Prometheus text, or has too many series."""

    kind = "malformed-exposition"


@dataclass(frozen=True, slots=True)
class Buckets:
    """A histogram since its counter began: cumulative counts at its upper bounds, +Inf last."""

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    total: float

    @property
    def count(self) -> int:
        """All observations."""
        return self.counts[-1]


@dataclass(slots=True)
class Reading:
    """One scrape. `histograms` and `counters` are by (what, labels); gauges are of now.

    `created` has, for the series that say it, when they began to count, and `process_started` when
    the process did: unix seconds.
    """

    model: str = ""
    histograms: dict[SeriesKey, Buckets] = field(default_factory=dict)
    counters: dict[SeriesKey, float] = field(default_factory=dict)
    gauges: dict[str, float] = field(default_factory=dict)
    created: dict[SeriesKey, float] = field(default_factory=dict)
    process_started: float | None = None
    missing: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Sample:
    labels: Mapping[str, str]
    value: float


Samples = Mapping[str, list[_Sample]]


def read(text: str, names: Names) -> Reading:
    """Take what a frame needs out of an exposition.

    Raises:
        ExpositionError: it is malformed or too large.
    """
    samples = _samples(text)
    reading = Reading(model=_model(samples), process_started=_process_started(samples))
    for what, candidates in names.histograms.items():
        name = _present(samples, candidates, "_bucket")
        if name is None:
            reading.missing.append(what)
            continue
        for labels, buckets in _histograms(samples, name, reading.problems):
            reading.histograms[what, labels] = buckets
        _read_created(samples, what, name, reading)
    _read_counters(samples, names, reading)
    _read_gauges(samples, names, reading)
    return reading


def _read_counters(samples: Samples, names: Names, reading: Reading) -> None:
    for what, candidates in names.counters.items():
        name = _present(samples, candidates)
        if name is None:
            reading.missing.append(what)
            continue
        for sample in samples[name]:
            if _is_count(sample.value):
                reading.counters[what, _key(sample.labels)] = sample.value
            else:
                reading.problems.append(f"{name} is {sample.value}")
        _read_created(samples, what, name.removesuffix("_total"), reading)


def _read_created(samples: Samples, what: str, name: str, reading: Reading) -> None:
    for sample in samples.get(f"{name}_created", []):
        if _is_count(sample.value):
            reading.created[what, _key(sample.labels)] = sample.value


def _process_started(samples: Samples) -> float | None:
    """The latest start of the endpoint's processes; None where it does not say."""
    told = [s.value for s in samples.get("process_start_time_seconds", []) if _is_count(s.value)]
    return max(told, default=None)


def _read_gauges(samples: Samples, names: Names, reading: Reading) -> None:
    for what, candidates in names.gauges.items():
        name = _present(samples, candidates)
        values = [] if name is None else [s.value for s in samples[name] if _is_count(s.value)]
        if values:
            # Requests add up over data-parallel engines; of their caches the fullest counts.
            reading.gauges[what] = max(values) if what == "kv_used" else sum(values)
        else:
            reading.missing.append(what)


def _samples(text: str) -> dict[str, list[_Sample]]:
    found: dict[str, list[_Sample]] = {}
    try:
        for number, (name, sample) in enumerate(_each_sample(text)):
            if number >= MAX_SERIES:
                raise ExpositionError(
                    f"more than {MAX_SERIES} samples: this is no engine's endpoint",
                    field="metrics", bound=MAX_SERIES,
                )  # fmt: skip
            found.setdefault(name, []).append(sample)
    except (ValueError, KeyError, IndexError) as error:
        raise ExpositionError(f"not Prometheus text: {error}", field="metrics") from None
    return {name: _first_ranks(samples) for name, samples in found.items()}


def _each_sample(text: str) -> Iterator[tuple[str, _Sample]]:
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            yield sample.name, _Sample(sample.labels, float(sample.value))


def _first_ranks(samples: list[_Sample]) -> list[_Sample]:
    """Of the ranks of one tensor-parallel group, the first; all where no rank is named."""
    if not any(rank in sample.labels for sample in samples for rank in _RANKS):
        return samples
    first: dict[Labels, tuple[tuple[int, ...], _Sample]] = {}
    for sample in samples:
        rest = {name: value for name, value in sample.labels.items() if name not in _RANKS}
        order = tuple(_number(sample.labels.get(rank, "0")) for rank in _RANKS)
        labels = _all_labels(rest)
        if labels not in first or order < first[labels][0]:
            first[labels] = (order, sample)
    return [sample for _, sample in first.values()]


def _number(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 10 else 0


def _present(samples: Samples, candidates: Iterable[str], suffix: str = "") -> str | None:
    return next((name for name in candidates if samples.get(name + suffix)), None)


def _histograms(
    samples: Samples, name: str, problems: list[str]
) -> Iterator[tuple[Labels, Buckets]]:
    """Each series of a histogram that is whole; what is not is left out and named."""
    buckets: dict[Labels, dict[float, float]] = {}
    for sample in samples[f"{name}_bucket"]:
        bound = _bound(sample.labels.get("le", ""))
        if bound is not None:
            buckets.setdefault(_key(sample.labels), {})[bound] = sample.value
    totals = {_key(s.labels): s.value for s in samples.get(f"{name}_sum", [])}
    counts = {_key(s.labels): s.value for s in samples.get(f"{name}_count", [])}
    for labels, at in buckets.items():
        if math.inf not in at and labels in counts:
            at[math.inf] = counts[labels]
        ordered = sorted(at.items())
        values = [value for _, value in ordered]
        if math.inf not in at or not all(map(_is_count, values)) or values != sorted(values):
            problems.append(f"{name} has buckets that are missing, NaN or not cumulative")
            continue
        total = totals.get(labels, math.nan)
        yield (
            labels,
            Buckets(
                tuple(bound for bound, _ in ordered[:-1]), tuple(round(v) for v in values),
                total if math.isfinite(total) else math.nan,
            ),
        )  # fmt: skip


def _bound(text: str) -> float | None:
    try:
        bound = float(text)
    except ValueError:
        return None
    return None if math.isnan(bound) else bound


def _is_count(value: float) -> bool:
    return math.isfinite(value) and 0 <= value <= _LARGEST


def _key(labels: Mapping[str, str]) -> Labels:
    return _all_labels({name: value for name, value in labels.items() if name != "le"})


def _all_labels(labels: Mapping[str, str]) -> Labels:
    return tuple(sorted(labels.items()))


def _model(samples: Samples) -> str:
    """The model that most series name."""
    seen = Counter(
        sample.labels[_MODEL] for found in samples.values() for sample in found
        if sample.labels.get(_MODEL)
    )  # fmt: skip
    return seen.most_common(1)[0][0] if seen else ""
