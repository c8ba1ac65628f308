"""Burn alerts of servers whose buckets are not ours, through the compatibility rules."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

import pytest
import yaml

from alerts.build import RULE_FILES
from tests.support.expositions import SAMPLES
from tests.support.promtool import needs_promtool, promtool

pytestmark = needs_promtool

FILES = ("trimtab-compatibility.rules.yaml", "trimtab-slo.rules.yaml")
SGLANG_AT, VLLM_AT = "10.0.0.7:30000", "10.0.0.8:8000"


@dataclass(frozen=True)
class Server:
    """Series of one server, by name with labels: what each grows by in a minute."""

    engine: str
    model: str
    series: Mapping[str, int]


def vllm(histogram: str, below: Mapping[str, int]) -> Server:
    """One data-parallel engine; `below` has the cumulative count of a minute by `le`."""
    labels = f'instance="{VLLM_AT}",engine="0",model_name="m"'
    series = {f'vllm:{histogram}_bucket{{{labels},le="{le}"}}': n for le, n in below.items()}
    return Server(
        f"{VLLM_AT}/0", "m", series | {f"vllm:{histogram}_count{{{labels}}}": below["+Inf"]}
    )


def bad_percent(folder, server: Server, slo: str, alert: str, percent: int, *, fires: bool):
    """Assert what is recorded after half an hour, and whether the page fires."""
    labels = f'{{engine="{server.engine}", model="{server.model}"}}'
    firing = f'count by (engine, model) (ALERTS{{alertname="{alert}", alertstate="firing"}})'
    body = {
        "rule_files": [str(folder / name) for name in FILES],
        "evaluation_interval": "1m",
        "group_eval_order": [group.name for name in FILES for group in RULE_FILES[name]],
        "tests": [
            {
                "interval": "1m",
                "input_series": [
                    {"series": name, "values": f"0+{grows}x40"}
                    for name, grows in server.series.items()
                ],
                "promql_expr_test": [
                    {
                        "expr": f"round(100 * engine:{slo}_bad:ratio_rate5m)",
                        "eval_time": "30m",
                        "exp_samples": [{"labels": labels, "value": percent}],
                    },
                    {
                        "expr": firing,
                        "eval_time": "30m",
                        "exp_samples": [{"labels": labels, "value": 1}] if fires else [],
                    },
                ],
            }
        ],
    }
    path = folder / "watched.yaml"
    path.write_text(yaml.safe_dump(body))
    code, output = promtool("test", "rules", str(path))
    assert code == 0, output


@pytest.mark.parametrize(
    ("below", "percent", "fires"),
    [
        # vLLM's and SGLang's own bounds around 0.2 s: up to 0.25 s nothing is surely bad.
        ({"0.1": 0, "0.25": 64, "0.5": 64, "1.0": 64, "+Inf": 64}, 0, False),
        ({"0.1": 48, "0.25": 48, "0.5": 64, "1.0": 64, "+Inf": 64}, 25, True),
        ({"0.1": 16, "0.2": 48, "0.25": 64, "+Inf": 64}, 25, True),  # it has the bound itself
        ({"0.001": 0, "0.15": 0, "0.3": 32, "20.0": 64, "+Inf": 64}, 50, True),
        ({"5e-05": 4, "0.05": 8, "1.0": 16, "10.0": 64, "1e+06": 64, "+Inf": 64}, 75, True),
        ({"0.1": 16, "+Inf": 64}, 0, False),  # above its last bound nothing is known
    ],
)
def test_first_tokens_are_judged_at_the_next_bound_that_the_server_has(
    rule_folder, below, percent, fires
):
    server = vllm("time_to_first_token_seconds", below)
    bad_percent(rule_folder, server, "ttft", "TtftBurnPage", percent, fires=fires)


@pytest.mark.parametrize(
    ("below", "percent", "fires"),
    [
        ({"0.025": 8, "0.05": 48, "0.075": 64, "+Inf": 64}, 25, True),
        ({"0.04": 0, "0.08": 64, "+Inf": 64}, 0, False),
        ({"0.04": 0, "0.08": 32, "0.1": 64, "+Inf": 64}, 50, True),
    ],
)
def test_output_tokens_are_judged_alike(rule_folder, below, percent, fires):
    server = vllm("request_time_per_output_token_seconds", below)
    bad_percent(rule_folder, server, "tpot", "TpotBurnPage", percent, fires=fires)


@pytest.mark.parametrize(
    ("labels", "engine"),
    [
        (f'instance="{VLLM_AT}"', VLLM_AT),
        (f'instance="{VLLM_AT}",engine=""', VLLM_AT),
        (f'instance="{VLLM_AT}",engine="12"', f"{VLLM_AT}/12"),
        (f'instance="{VLLM_AT}",engine="vllm-live",exported_engine="0"', "vllm-live"),
        (f'instance="{VLLM_AT}",engine="rack-1"', "rack-1"),
    ],
)
@pytest.mark.parametrize("source", ["vllm", "sglang"])
def test_an_engine_is_called_as_the_scrape_config_says_or_by_its_address(
    rule_folder, labels, engine, source
):
    theirs = {"vllm": "vllm:num_requests_running", "sglang": "sglang:num_running_reqs"}[source]
    test = {
        "interval": "1m",
        "input_series": [{"series": f'{theirs}{{{labels},model_name="m"}}', "values": "3x5"}],
        "promql_expr_test": [
            {
                "expr": "moe_engine_running_requests",
                "eval_time": "2m",
                "exp_samples": [
                    {
                        "labels": f'moe_engine_running_requests{{engine="{engine}",model="m",'
                        f'source="{source}"}}',
                        "value": 3,
                    }
                ],
            }
        ],
    }
    path = rule_folder / "called.yaml"
    path.write_text(yaml.safe_dump({"rule_files": [str(rule_folder / FILES[0])], "tests": [test]}))
    code, output = promtool("test", "rules", str(path))
    assert code == 0, output


def test_a_real_overloaded_sglang_server_pages(rule_folder):
    file = SAMPLES / "sglang_llama31_8b_overloaded.prom"
    if not file.exists():
        pytest.skip(f"the samples of real servers are not here: {file.name}")
    pattern = r"^(sglang:time_to_first_token_seconds_(?:bucket|count)){(.*)} ([0-9.e+]+)$"
    series = {
        f'{name}{{instance="{SGLANG_AT}",{labels}}}': int(float(value))
        for name, labels, value in re.findall(pattern, file.read_text(), re.MULTILINE)
    }
    assert len(series) == 22
    server = Server(SGLANG_AT, "meta-llama/Llama-3.1-8B-Instruct", series)
    bad_percent(rule_folder, server, "ttft", "TtftBurnPage", 100, fires=True)
