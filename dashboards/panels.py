"""Panels of one look: a unit and a label on every axis, colours that everyone can tell apart.

Colours are the Okabe-Ito set; lines of one panel also differ in their dashes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from grafana_foundation_sdk.builders import common as common_builders
from grafana_foundation_sdk.builders import dashboard as dashboard_builders
from grafana_foundation_sdk.builders import prometheus, stat, timeseries
from grafana_foundation_sdk.models import common, dashboard

DATASOURCE = common.DataSourceRef(type_val="prometheus", uid="${datasource}")
OKABE_ITO = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442")
VERMILLION = "#D55E00"
_DASHES: tuple[list[float], ...] = ([0, 0], [8, 4], [2, 4], [8, 4, 2, 4])
HEIGHT = 8
"""Grid rows of a panel; a dashboard is 24 wide."""


@dataclass(frozen=True, slots=True)
class Query:
    """One query of a panel and the legend of its lines."""

    expr: str
    legend: str


def lines(
    title: str, queries: Sequence[Query], *, unit: str, axis: str, about: str,
    threshold: float | None = None, span: int = 12, minimum: float | None = 0,
) -> timeseries.Panel:  # fmt: skip
    """Lines over time.

    Args:
        title: of the panel.
        queries: each gets its own colour and dashes; a query of many lines is shaded by value.
        unit: Grafana unit, e.g. "s", "percentunit", "short".
        axis: label of the axis.
        about: what the panel shows, what is healthy, what to do.
        threshold: drawn as a line, in the unit of the panel.
        span: width of 24.
        minimum: of the axis, None for automatic.
    """
    panel = (
        timeseries.Panel()
        .title(title).description(about).datasource(DATASOURCE).unit(unit).axis_label(axis)
        .line_width(2).fill_opacity(0).span_nulls(False).show_points(common.VisibilityMode.NEVER)
        .span(span).height(HEIGHT)
        .legend(
            common_builders.VizLegendOptions()
            .display_mode(common.LegendDisplayMode.TABLE)
            .placement(common.LegendPlacement.BOTTOM).show_legend(True)
            .calcs(["lastNotNull", "max"])
        )
        .tooltip(common_builders.VizTooltipOptions().mode(common.TooltipDisplayMode.MULTI))
    )  # fmt: skip
    if minimum is not None:
        panel.min(minimum)
    for index, query in enumerate(queries):
        ref = chr(ord("A") + index)
        panel.with_target(_target(query, ref))
        panel.override_by_query(ref, _style(index, many="{{layer}}" in query.legend))
    if threshold is not None:
        panel.thresholds(_threshold(threshold)).thresholds_style(
            common_builders.GraphThresholdsStyleConfig().mode(
                common.GraphThresholdsStyleMode.DASHED
            )
        )
    return panel


def number(
    title: str, query: Query, *, unit: str, about: str, threshold: float, above_is_bad: bool,
    span: int = 6,
) -> stat.Panel:  # fmt: skip
    """The newest value, coloured by a threshold: blue is good, vermillion is bad."""
    good, bad = OKABE_ITO[0], VERMILLION
    below, above = (good, bad) if above_is_bad else (bad, good)
    steps = [
        dashboard.Threshold(value=None, color=below),
        dashboard.Threshold(value=threshold, color=above),
    ]
    return (
        stat.Panel()
        .title(title).description(about).datasource(DATASOURCE).unit(unit)
        .graph_mode(common.BigValueGraphMode.AREA)
        .color_mode(common.BigValueColorMode.VALUE)
        .thresholds(
            dashboard_builders.ThresholdsConfig()
            .mode(dashboard.ThresholdsMode.ABSOLUTE).steps(steps)
        )
        .with_target(_target(query, "A"))
        .span(span).height(HEIGHT // 2)
    )  # fmt: skip


def _target(query: Query, ref: str) -> prometheus.Dataquery:
    return prometheus.Dataquery().expr(query.expr).legend_format(query.legend).range().ref_id(ref)


def _style(index: int, *, many: bool) -> list[dashboard.DynamicConfigValue]:
    dashes = _DASHES[index % len(_DASHES)]
    if many:
        color: dict[str, object] = {"mode": "continuous-blues"}
    else:
        color = {"mode": "fixed", "fixedColor": OKABE_ITO[index % len(OKABE_ITO)]}
    style: dict[str, object] = {"fill": "solid"} if index == 0 else {"fill": "dash", "dash": dashes}
    return [
        dashboard.DynamicConfigValue(id_val="color", value=color),
        dashboard.DynamicConfigValue(id_val="custom.lineStyle", value=style),
    ]


def _threshold(value: float) -> dashboard_builders.ThresholdsConfig:
    steps = [
        dashboard.Threshold(value=None, color="transparent"),
        dashboard.Threshold(value=value, color=VERMILLION),
    ]
    return (
        dashboard_builders.ThresholdsConfig().mode(dashboard.ThresholdsMode.ABSOLUTE).steps(steps)
    )
