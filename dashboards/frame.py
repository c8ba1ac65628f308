"""What every dashboard of ours shares: variables, annotations, links, tags."""

from collections.abc import Mapping, Sequence
from itertools import count

from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.builders import stat, timeseries
from grafana_foundation_sdk.models import dashboard

from dashboards.panels import DATASOURCE, OKABE_ITO
from dashboards.queries import grown, selector

TAG = "trimtab"
Panels = Sequence[timeseries.Panel | stat.Panel]


def new_dashboard(
    title: str, uid: str, description: str, rows: Mapping[str, Panels]
) -> builders.Dashboard:
    """A dashboard with the datasource, model and engine variables, annotations and links.

    Args:
        title: shown.
        uid: must never change, links and bookmarks hold it.
        description: one sentence.
        rows: panels by the title of their row, top to bottom.
    """
    board = (
        builders.Dashboard(title)
        .uid(uid).description(description).tags([TAG, "moe"]).readonly()
        .refresh("10s").time("now-1h", "now").timezone("browser")
        .tooltip(dashboard.DashboardCursorSync.CROSSHAIR)
        .with_variable(
            builders.DatasourceVariable("datasource").label("Data source").type("prometheus")
        )
        .with_variable(_labels("model", "label_values(moe_engine_config_generation, model)"))
        .with_variable(
            _labels("engine", 'label_values(moe_engine_config_generation{model=~"$model"}, engine)')
        )
        .link(
            builders.DashboardLink("Trimtab dashboards")
            .type(dashboard.DashboardLinkType.DASHBOARDS).tags([TAG]).keep_time(True)
            .include_vars(True).as_dropdown(True)
        )
    )  # fmt: skip
    for annotation in _annotations():
        board.annotation(annotation)
    ids = count(1)
    for row, panels in rows.items():
        board.with_row(builders.Row(row).id(next(ids)))
        for panel in panels:
            board.with_panel(panel.id(next(ids)))
    return board


def _labels(name: str, query: str) -> builders.QueryVariable:
    return (
        builders.QueryVariable(name)
        .label(name.capitalize()).datasource(DATASOURCE).query(query)
        .refresh(dashboard.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(dashboard.VariableSort.ALPHABETICAL_ASC).multi(True).include_all(True).all_value(".*")
    )  # fmt: skip


def _annotations() -> list[builders.AnnotationQuery]:
    window = "[$__interval]"
    acted = f"({grown('trimtab_actions_total', '$__interval')}) > 0"
    # A bias that an updater moves keeps its version: it shows by leaving the last good one.
    distance = selector("moe_router_bias_distance")
    is_away, was_away = f"({distance} > bool 0)", f"({distance} offset $__interval > bool 0)"
    turned = (
        f"(changes({selector('moe_router_bias_version')}{window}) > 0) "
        f"or (abs({is_away} - {was_away}) > 0)"
    )
    described = (
        ("Actions", acted, OKABE_ITO[5],
         "{{knob}} {{outcome}}", "engine,knob,outcome"),
        ("Router bias", turned, OKABE_ITO[3], "Router bias changed", "engine"),
        ("Config", f"changes({selector('moe_engine_config_generation')}{window}) > 0",
         OKABE_ITO[4], "Config generation changed", "engine"),
    )  # fmt: skip
    return [
        builders.AnnotationQuery()
        .name(name).datasource(DATASOURCE).expr(expr).enable(True).icon_color(color)
        .title_format(title).tag_keys(tags).text_format("{{engine}}").step("10s")
        for name, expr, color, title, tags in described
    ]  # fmt: skip
