import json
import re

import pytest
import yaml

from dashboards import queries
from dashboards.build import build_all, panel_queries
from dashboards.panels import OKABE_ITO
from tests.support.promtool import needs_promtool, promtool

FILES = build_all()


def panels(content: str) -> list[dict]:
    return [panel for panel in json.loads(content)["panels"] if panel["type"] != "row"]


def test_building_twice_gives_the_same_bytes():
    assert build_all() == FILES


def test_uids_are_unique_and_name_the_files():
    boards = {name: json.loads(content) for name, content in FILES.items()}
    assert {f"{board['uid']}.json" for board in boards.values()} == set(boards)


@pytest.mark.parametrize("name", FILES)
def test_every_panel_has_a_unit_a_description_and_the_datasource_variable(name):
    for panel in panels(FILES[name]):
        defaults = panel["fieldConfig"]["defaults"]
        assert defaults["unit"], panel["title"]
        assert panel["description"], panel["title"]
        assert panel["datasource"]["uid"] == "${datasource}"
        if panel["type"] == "timeseries":
            assert defaults["custom"]["axisLabel"], panel["title"]


@pytest.mark.parametrize("name", FILES)
def test_panel_ids_are_unique_and_panels_do_not_overlap(name):
    everything = json.loads(FILES[name])["panels"]
    assert len({panel["id"] for panel in everything}) == len(everything)
    cells: set[tuple[int, int]] = set()
    for panel in everything:
        at = panel["gridPos"]
        own = {(at["x"] + i, at["y"] + j) for i in range(at["w"]) for j in range(at["h"])}
        assert not own & cells, panel["title"]
        assert at["x"] + at["w"] <= 24
        cells |= own


@pytest.mark.parametrize("name", FILES)
def test_colours_are_of_the_set_that_everyone_can_tell_apart(name):
    fixed = set(re.findall(r'"fixedColor": "([^"]+)"', FILES[name]))
    steps = set(re.findall(r'"color": "(#?[^"]+)"', FILES[name])) - {"transparent"}
    assert fixed | steps <= set(OKABE_ITO)


@pytest.mark.parametrize("name", FILES)
def test_variables_and_annotations_are_on_every_dashboard(name):
    board = json.loads(FILES[name])
    assert [one["name"] for one in board["templating"]["list"]] == ["datasource", "model", "engine"]
    assert {one["name"] for one in board["annotations"]["list"]} == {
        "Actions", "Router bias", "Config",
    }  # fmt: skip


@needs_promtool
def test_promtool_parses_every_query(tmp_path):
    expressions = {expr for content in FILES.values() for expr in panel_queries(content)}
    rules = [
        {"record": f"panel:query_{i}:value", "expr": substituted(expr)}
        for i, expr in enumerate(sorted(expressions))
    ]
    path = tmp_path / "panels.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    code, output = promtool("check", "rules", str(path))
    assert code == 0, output


@needs_promtool
def test_a_share_adds_up_engines_with_other_bounds_each_at_its_own(tmp_path):
    name = "gen_ai_server_time_to_first_token_seconds"
    ours = {"0.1": 0, "0.2": 12, "0.5": 16, "+Inf": 16}
    theirs = {"0.1": 0, "0.25": 4, "0.5": 16, "+Inf": 16}
    series = {
        f'{name}_bucket{{model="m",engine="{engine}",le="{le}"}}': n
        for engine, below in {"a": ours, "b": theirs}.items()
        for le, n in below.items()
    } | {f'{name}_count{{model="m",engine="{engine}"}}': 16 for engine in "ab"}
    test = {
        "interval": "15s",
        "input_series": [{"series": s, "values": f"0+{n}x20"} for s, n in series.items()],
        "promql_expr_test": [
            {
                "expr": substituted(queries.share_under(name, 0.2)), "eval_time": "5m",
                "exp_samples": [{"labels": "{}", "value": 0.5}],
            }
        ],
    }  # fmt: skip
    path = tmp_path / "shares.yaml"
    path.write_text(yaml.safe_dump({"tests": [test]}))
    code, output = promtool("test", "rules", str(path))
    assert code == 0, output


def substituted(expr: str) -> str:
    """What Grafana sends: variables replaced."""
    for name, value in (("$__rate_interval", "1m"), ("$__interval", "15s")):
        expr = expr.replace(name, value)
    return expr.replace("$model", ".*").replace("$engine", ".*")


def test_a_query_that_the_contract_does_not_allow_is_refused():
    for build in (
        lambda: queries.metric("moe_nothing"),
        lambda: queries.rate("moe_capacity_slots"),
        lambda: queries.grown("moe_capacity_slots", "1m"),
        lambda: queries.quantile(0.5, "moe_capacity_slots"),
        lambda: queries.selector("moe_capacity_slots", rank="0"),
        lambda: queries.share_under("gen_ai_server_time_to_first_token_seconds", 0.123),
    ):
        with pytest.raises(KeyError):
            build()
