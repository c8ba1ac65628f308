"""A real Prometheus reads a real engine and control plane; the drift alert comes back to them.

One site for the whole file, with an observed vLLM server beside the engine. What happens on it, in
order: work is rerouted and spilled for some seconds, the bias is marked good, a ramp drives it
away, both Alertmanagers deliver the alert, an operator approves the rollback, and it ends.
"""

import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from dashboards.build import build_all, panel_queries
from tests.support.expositions import Endpoint, vllm
from tests.support.loopback_server import Switchboard, served
from tests.support.polling import until
from tests.support.prometheus_site import (
    ALERTMANAGER_TOKEN,
    ALERTMANAGERS,
    PrometheusSite,
    prometheus_site,
)
from tests.support.running_site import Load, RunningSite, running_site
from trimtab.demo.site import ENGINE_ID

PROGRAMS = ("prometheus", "prometheus-alertmanager", "promtool")
MISSING = [program for program in PROGRAMS if shutil.which(program) is None]
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(600),
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}"),
]

ENVIRONMENT = {
    "TRIMTAB_AUTH__ALERTMANAGER_TOKEN": ALERTMANAGER_TOKEN,
    "TRIMTAB_ENGINE_OPEN_METRICS": "false",
    "TRIMTAB_ENGINE_WATCHDOG_SECONDS": "60",
}
FINAL = {"succeeded", "escalated", "superseded", "failed"}
ALERT = "MoeBiasDrift"
QUERIES = {
    f"{name.removesuffix('.json')}-{number}": expr
    for name, content in build_all().items()
    for number, expr in enumerate(panel_queries(content))
}


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrometheusSite]:
    """Everything runs, and requests are served."""
    folder = tmp_path_factory.mktemp("site")
    switchboard = Switchboard()
    with (
        served(switchboard) as base_url,
        switchboard.mounted(base_url, Endpoint(vllm())) as vllm_url,
        running_site(folder, ENVIRONMENT, vllm_url=vllm_url) as running,
        prometheus_site(running, folder / "prometheus", holds={ALERT: "1s"}) as site,
    ):
        running.wait_until_ready()
        running.govern(router_bias="approve")
        with Load(running.site).running():
            yield site


@pytest.fixture(scope="module")
def overflowed(prometheus: PrometheusSite) -> PrometheusSite:
    """Overflow has been rerouted, and spilled to replicas, and all is as before."""
    running = prometheus.running
    before = running.config().document.config.model_dump(mode="json")
    tight = {"capacity_factor": "1", "cap_min": 1}
    running.set_knobs(**tight, overflow_policy="reroute_next_best")
    _has_rate(prometheus, "moe_rerouted_assignments_total")
    twice = _every_expert_on_every_rank(running)
    running.change("PUT", "/placement", twice)
    running.set_knobs(**tight, overflow_policy="spill")
    _has_rate(prometheus, "moe_spilled_assignments_total")
    running.set_knobs(**before)
    return prometheus


@pytest.fixture(scope="module")
def alerted(overflowed: PrometheusSite) -> dict[str, Any]:
    """The inbox's row of the drift alert, once it has been evaluated."""
    running = overflowed.running
    running.mark_good()
    running.drift()

    def evaluated() -> dict[str, Any] | None:
        rows = [row for row in _inbox(running) if row["status"] == "firing"]
        done = rows and rows[0]["state"] == "evaluated" and rows[0]["deliveries"] >= ALERTMANAGERS
        return rows[0] if done else None

    return until(
        evaluated,
        "both Alertmanagers delivered the drift alert",
        show=lambda: (_inbox(running), running.findings().get("bias_drift")),
    )


@pytest.fixture(scope="module")
def recovered(overflowed: PrometheusSite, alerted: dict[str, Any]) -> PrometheusSite:
    """The rollback that the governor proposed has been approved and has ended."""
    running = overflowed.running
    (waiting,) = until(
        lambda: running.actions("awaiting_approval"),
        "a rollback was proposed",
        show=lambda: (running.actions(), running.findings().get("bias_drift")),
    )
    running.control_send("POST", f"/actions/{waiting['action_id']}/approve")
    until(
        lambda: running.action(waiting["action_id"])["phase"] in FINAL,
        "the rollback ended",
        show=lambda: running.action(waiting["action_id"]),
    )
    biases = running.biases()
    assert biases.live_hash == biases.last_known_good
    until(
        lambda: overflowed.values('trimtab_actions_total{knob="router_bias"}'),
        "Prometheus has seen the action's end",
    )
    return overflowed


def test_both_programs_are_scraped_and_every_rule_evaluates(prometheus: PrometheusSite):
    until(
        lambda: set(prometheus.targets().values()) == {"up"},
        "both targets are up",
        show=prometheus.targets,
    )
    assert prometheus.targets().keys() == {"trimtab-engine", "trimtab-controlplane"}
    assert prometheus.rule_errors() == {}


def test_metrics_beyond_loopback_need_a_token(prometheus: PrometheusSite):
    answer = httpx.get(f"{prometheus.running.site.engine_url}/metrics", trust_env=False)
    assert answer.status_code == 401


@pytest.mark.parametrize("program", ["engine_api", "control_api"])
def test_promtool_accepts_every_series(overflowed: PrometheusSite, program: str):
    client: httpx.Client = getattr(overflowed.running, program)
    text = client.get("/metrics").text
    assert text.count("\n") > 100
    checked = subprocess.run(
        ["promtool", "check", "metrics"], input=text, check=False, capture_output=True, text=True
    )
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")


def test_the_drift_alert_is_kept_once_however_often_it_is_delivered(
    overflowed: PrometheusSite, alerted: dict[str, Any]
):
    firing = [row for row in _inbox(overflowed.running) if row["status"] == "firing"]
    assert len({(row["starts_at"]) for row in firing}) == len(firing)
    assert alerted["deliveries"] >= ALERTMANAGERS
    assert alerted["engine_id"] == ENGINE_ID
    assert alerted["payload"]["labels"]["cause"] == "router_bias"
    assert "bias" in alerted["payload"]["annotations"]["summary"]


def test_the_drift_alert_leads_to_a_decision_with_its_evidence(
    overflowed: PrometheusSite, alerted: dict[str, Any]
):
    detail = overflowed.running.control_get(f"/decisions/{alerted['decision_id']}")
    decision = detail["decision"]
    assert decision["origin"] == f"alert:{alerted['key']}"
    assert decision["engine_id"] == ENGINE_ID
    (drift,) = (f for f in detail["evidence"]["findings"] if f["detector"] == "bias_drift")
    assert drift["low"] > drift["threshold"]
    assert drift["n"] > 0
    assert detail["snapshot"]["bias"]["live"] != detail["snapshot"]["bias"]["last_known_good"]
    assert decision["reason"] in alerted["outcome"]


def test_the_governor_proposes_the_rollback_and_an_approval_carries_it_out(
    recovered: PrometheusSite,
):
    (action,) = (a for a in recovered.running.actions() if a["change"]["knob"] == "router_bias")
    assert action["change"]["kind"] == "bias_rollback"
    assert action["phase"] in FINAL


@pytest.mark.parametrize("name", QUERIES)
def test_every_query_of_every_dashboard_returns_data(recovered: PrometheusSite, name: str):
    # Until a hundred requests were judged there is no budget to show.
    until(lambda: recovered.values(QUERIES[name]), f"{QUERIES[name]} returned data")


def _has_rate(site: PrometheusSite, counter: str) -> None:
    expr = f"sum(rate({counter}[15s])) > 0"
    until(lambda: site.values(expr), f"{counter} grew")


def _inbox(running: RunningSite) -> list[dict[str, Any]]:
    return [row for row in running.control_get("/alerts") if row["alertname"] == ALERT]


def _every_expert_on_every_rank(running: RunningSite) -> dict[str, Any]:
    linear = running.engine_get("/placement")
    layers = linear["physical_to_logical"]
    return {
        "placement_id": "twice",
        "ranks": linear["ranks"],
        "physical_to_logical": [row * linear["ranks"] for row in layers],
    }
