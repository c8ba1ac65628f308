"""Rules as values: recording rules and alerts, and the YAML shape that Prometheus reads."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from contract.metrics import METRICS, Kind

RUNBOOKS = "alerts/runbooks.md"


@dataclass(frozen=True, slots=True)
class Installation:
    """What an installation may set differently from the committed rules.

    Attributes:
        runbooks: address of the runbook page.
        holds: alert name → its `for:`, a Prometheus duration, where not the rule's own.
    """

    runbooks: str = RUNBOOKS
    holds: Mapping[str, str] = field(default_factory=dict)


class Severity(StrEnum):
    """Who hears of an alert: a person now, or a person tomorrow."""

    PAGE = "page"
    TICKET = "ticket"


@dataclass(frozen=True, slots=True)
class Recording:
    """A recorded series, named level:metric:operations; `labels` tell equal names apart."""

    record: str
    expr: str
    labels: dict[str, str] = field(default_factory=dict)

    def body(self, _site: Installation) -> dict[str, object]:
        """As Prometheus reads it."""
        body: dict[str, object] = {"record": self.record, "expr": self.expr}
        return body | ({"labels": self.labels} if self.labels else {})


@dataclass(frozen=True, slots=True)
class Alert:
    """An alert with what an operator needs to begin.

    Attributes:
        name: CamelCase; its runbook entry has the same heading.
        expr: fires while it has a result; keeps `engine` where it can.
        hold: how long it must hold, a Prometheus duration.
        severity: page or ticket.
        summary: one line.
        description: what it means, with `{{ $labels.engine }}` and `{{ $value }}`.
        labels: beyond severity.
    """

    name: str
    expr: str
    hold: str
    severity: Severity
    summary: str
    description: str
    labels: dict[str, str] = field(default_factory=dict)

    def body(self, installation: Installation) -> dict[str, object]:
        """As Prometheus reads it."""
        return {
            "alert": self.name,
            "expr": self.expr,
            "for": installation.holds.get(self.name, self.hold),
            "labels": {"severity": self.severity.value, **self.labels},
            "annotations": {
                "summary": self.summary,
                "description": self.description,
                "runbook_url": f"{installation.runbooks}#{self.name.lower()}",
            },
        }


@dataclass(frozen=True, slots=True)
class Group:
    """Rules that are evaluated together, in order."""

    name: str
    rules: tuple[Recording | Alert, ...]

    def body(self, installation: Installation) -> dict[str, object]:
        """As Prometheus reads it."""
        return {"name": self.name, "rules": [rule.body(installation) for rule in self.rules]}


def series(name: str) -> str:
    """A declared counter or gauge.

    Raises:
        KeyError: not in the contract, or a histogram.
    """
    if METRICS[name].kind is Kind.HISTOGRAM:
        raise KeyError(f"{name} is a histogram: use _bucket, _sum or _count")
    return name


def buckets(name: str) -> str:
    """The bucket series of a declared histogram."""
    if METRICS[name].kind is not Kind.HISTOGRAM:
        raise KeyError(f"{name} is no histogram")
    return f"{name}_bucket"
