"""The OpenSLO v1 kinds as types: what the specification allows, and nothing else.

Durations have whole units from minutes up (`30d`, `1m`); seconds live in our annotations. A burn
condition reads "alert when burn OP threshold", so only `gt` and `gte` make sense; the
specification's own example says "exceeds" with `lte`, and is refused with an explanation.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from contract.written import Written

API_VERSION = "openslo/v1"

Name = Annotated[
    str,
    Field(max_length=63),
    Written(
        r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
        "have only a-z 0-9 - with a letter or a digit first and last",
    ),
]
Duration = Annotated[
    str,
    Written(r"^[1-9][0-9]*[mhdwMQY]$", "be a whole number and one of m h d w M Q Y, such as 30d"),
]
Operator = Literal["lt", "lte", "gt", "gte"]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Metadata(_Part):
    """Who the document is about; annotations are the sanctioned extension point."""

    name: Name
    displayName: str | None = None  # noqa: N815 (the specification's spelling)
    labels: dict[str, str | list[str]] = {}
    annotations: dict[str, str] = {}


class MetricSource(_Part):
    """Where a metric comes from; `spec` is the source's own."""

    metricSourceRef: str | None = None  # noqa: N815
    type: str | None = None
    spec: dict[str, Any] = {}


class Metric(_Part):
    """One metric of an indicator."""

    metricSource: MetricSource  # noqa: N815


class RatioMetric(_Part):
    """Good or bad, and total; or a raw ratio."""

    counter: bool | None = None
    good: Metric | None = None
    bad: Metric | None = None
    total: Metric | None = None
    raw: Metric | None = None
    rawType: Literal["success", "failure"] | None = None  # noqa: N815

    @model_validator(mode="after")
    def _is_one_form(self) -> Self:
        if self.raw is not None:
            return self
        if self.total is None or (self.good is None) == (self.bad is None):
            raise ValueError("a ratio metric needs total and exactly one of good and bad, or raw")
        return self


class IndicatorSpec(_Part):
    """Exactly one of a threshold metric and a ratio metric."""

    description: str | None = None
    thresholdMetric: Metric | None = None  # noqa: N815
    ratioMetric: RatioMetric | None = None  # noqa: N815

    @model_validator(mode="after")
    def _is_one_metric(self) -> Self:
        if (self.thresholdMetric is None) == (self.ratioMetric is None):
            raise ValueError("an indicator needs exactly one of thresholdMetric and ratioMetric")
        return self


class Indicator(_Part):
    """An indicator written inside an SLO."""

    metadata: Metadata
    spec: IndicatorSpec


class Calendar(_Part):
    """A window of the calendar."""

    startTime: str  # noqa: N815
    timeZone: str  # noqa: N815


class TimeWindow(_Part):
    """The time that an error budget covers."""

    duration: Duration
    isRolling: bool | None = None  # noqa: N815
    calendar: Calendar | None = None


class Objective(_Part):
    """One target; `op` and `value` for threshold metrics, slices for timeslices."""

    displayName: str | None = None  # noqa: N815
    op: Operator | None = None
    value: float | None = None
    target: float | None = Field(default=None, gt=0, lt=1)
    targetPercent: float | None = Field(default=None, gt=0, lt=100)  # noqa: N815
    timeSliceTarget: float | None = Field(default=None, gt=0, le=1)  # noqa: N815
    timeSliceWindow: Duration | None = None  # noqa: N815
    indicator: Indicator | None = None
    indicatorRef: Name | None = None  # noqa: N815
    compositeWeight: float | None = Field(default=None, gt=0)  # noqa: N815

    @model_validator(mode="after")
    def _has_one_target(self) -> Self:
        if (self.target is None) == (self.targetPercent is None):
            raise ValueError("an objective needs exactly one of target and targetPercent")
        return self

    @property
    def ratio(self) -> float:
        """The target as a ratio."""
        return self.target if self.target is not None else (self.targetPercent or 0.0) / 100.0


class SloSpec(_Part):
    """An SLO."""

    description: str | None = None
    service: str
    indicator: Indicator | None = None
    indicatorRef: Name | None = None  # noqa: N815
    timeWindow: list[TimeWindow] = Field(min_length=1, max_length=1)  # noqa: N815
    budgetingMethod: Literal["Occurrences", "Timeslices", "RatioTimeslices"]  # noqa: N815
    objectives: list[Objective] = Field(min_length=1)
    alertPolicies: list[Any] = []  # noqa: N815

    @model_validator(mode="after")
    def _slices_are_complete(self) -> Self:
        if self.budgetingMethod == "Timeslices":
            for objective in self.objectives:
                if objective.timeSliceTarget is None or objective.timeSliceWindow is None:
                    raise ValueError("Timeslices need timeSliceTarget and timeSliceWindow")
        return self


class BurnCondition(_Part):
    """Alert when burn OP threshold over the look-back, for `alertAfter`."""

    kind: Literal["burnrate"]
    op: Operator
    threshold: float = Field(gt=0)
    lookbackWindow: Duration  # noqa: N815
    alertAfter: Duration | None = None  # noqa: N815

    @model_validator(mode="after")
    def _alerts_when_burning(self) -> Self:
        if self.op in ("lt", "lte"):
            raise ValueError(
                f"op {self.op} would alert while the budget is not burning; a condition reads "
                "'alert when burn OP threshold', use gt or gte"
            )
        return self


class AlertConditionSpec(_Part):
    """When to alert."""

    description: str | None = None
    severity: str
    condition: BurnCondition


class AlertPolicySpec(_Part):
    """Which condition alerts whom."""

    description: str | None = None
    alertWhenNoData: bool = False  # noqa: N815
    alertWhenResolved: bool = False  # noqa: N815
    alertWhenBreaching: bool = False  # noqa: N815
    conditions: list[Any] = Field(min_length=1, max_length=1)
    notificationTargets: list[Any] = []  # noqa: N815


class ServiceSpec(_Part):
    """A service."""

    description: str | None = None


class DataSourceSpec(_Part):
    """Where metrics are kept."""

    description: str | None = None
    type: str
    connectionDetails: dict[str, Any] = {}  # noqa: N815


class NotificationTargetSpec(_Part):
    """Who is told."""

    target: str
    description: str | None = None


class _Document(_Part):
    apiVersion: Literal["openslo/v1"]  # noqa: N815
    metadata: Metadata


class Slo(_Document):
    """An SLO document."""

    kind: Literal["SLO"]
    spec: SloSpec


class Sli(_Document):
    """An indicator document."""

    kind: Literal["SLI"]
    spec: IndicatorSpec


class Service(_Document):
    """A service document."""

    kind: Literal["Service"]
    spec: ServiceSpec


class DataSource(_Document):
    """A data source document."""

    kind: Literal["DataSource"]
    spec: DataSourceSpec


class AlertPolicy(_Document):
    """An alert policy document."""

    kind: Literal["AlertPolicy"]
    spec: AlertPolicySpec


class AlertCondition(_Document):
    """An alert condition document."""

    kind: Literal["AlertCondition"]
    spec: AlertConditionSpec


class NotificationTarget(_Document):
    """A notification target document."""

    kind: Literal["AlertNotificationTarget"]
    spec: NotificationTargetSpec


KINDS = (
    "SLO", "SLI", "Service", "DataSource", "AlertPolicy", "AlertCondition",
    "AlertNotificationTarget",
)  # fmt: skip
Document = Annotated[
    Slo | Sli | Service | DataSource | AlertPolicy | AlertCondition | NotificationTarget,
    Field(discriminator="kind"),
]
