import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from alerts.alertmanager import Webhook
from alerts.build import (
    RULE_FILES,
    alertmanager_yaml,
    all_alerts,
    all_recordings,
    prometheus_yaml,
    rules,
)
from alerts.rules import RUNBOOKS, Alert, Installation, buckets, series
from alerts.scrape import Scrape
from tests.alerts.cases import CASES, Case
from tests.support.promtool import needs_promtool, promtool

ALERTS = {alert.name: alert for alert in all_alerts()}
ALERT_FILES = ("trimtab.rules.yaml", "trimtab-slo.rules.yaml")
needs_amtool = pytest.mark.skipif(shutil.which("amtool") is None, reason="amtool is not installed")


def expected(alert: Alert, case: Case) -> dict[str, object]:
    body: Any = alert.body(Installation())
    annotations: dict[str, str] = body["annotations"]
    text = annotations["description"]
    text = re.sub(r"\{\{ \$value[^}]*\}\}", case.shown, text)
    annotations["description"] = re.sub(
        r"\{\{ \$labels\.(\w+) \}\}", lambda found: case.labels.get(found[1], ""), text
    )
    return {"exp_labels": {**body["labels"], **case.labels}, "exp_annotations": annotations}


def unit_test(alert: Alert, case: Case, *, firing: bool) -> dict[str, object]:
    values = case.firing if firing else case.silent
    return {
        "interval": f"{case.minutes}m",
        "input_series": [{"series": name, "values": text} for name, text in values.items()],
        "alert_rule_test": [
            {
                "eval_time": case.at,
                "alertname": alert.name,
                "exp_alerts": [expected(alert, case)] if firing else [],
            }
        ],
    }


def test_every_alert_has_a_firing_and_a_silent_case():
    assert set(CASES) == set(ALERTS)


@needs_promtool
@pytest.mark.parametrize("minutes", sorted({case.minutes for case in CASES.values()}))
def test_alerts_fire_when_they_should_and_are_silent_when_not(rule_folder, minutes):
    chosen = {name: case for name, case in CASES.items() if case.minutes == minutes}
    tests = [
        unit_test(ALERTS[name], case, firing=firing)
        for name, case in chosen.items()
        for firing in (True, False)
    ]
    body = {
        "rule_files": [str(rule_folder / name) for name in ALERT_FILES],
        "evaluation_interval": f"{minutes}m",
        # A burn alert reads what was recorded at the same moment.
        "group_eval_order": [group.name for name in ALERT_FILES for group in RULE_FILES[name]],
        "tests": tests,
    }
    path = rule_folder / f"test-{minutes}.yaml"
    path.write_text(yaml.safe_dump(body))
    code, output = promtool("test", "rules", str(path))
    assert code == 0, output


@needs_promtool
def test_promtool_accepts_every_rule_file(rule_folder):
    code, output = promtool("check", "rules", *map(str, rule_folder.glob("*.rules.yaml")))
    assert code == 0, output


@needs_promtool
def test_promtool_accepts_the_prometheus_config(tmp_path):
    path = tmp_path / "prometheus.yaml"
    path.write_text(prometheus_yaml(Scrape(token_file="/run/secrets/token")))
    code, output = promtool("check", "config", "--syntax-only", str(path))
    assert code == 0, output


@needs_amtool
def test_amtool_accepts_the_alertmanager_config_and_every_alert_reaches_the_webhook(tmp_path):
    path = tmp_path / "alertmanager.yaml"
    path.write_text(alertmanager_yaml(Webhook()))
    checked = subprocess.run(
        ["amtool", "check-config", str(path)], check=False, capture_output=True
    )
    assert checked.returncode == 0, checked.stderr
    routed = subprocess.run(
        ["amtool", "config", "routes", "test", f"--config.file={path}", "alertname=MoeBiasDrift"],
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert routed.stdout.strip() == "trimtab"


@pytest.mark.parametrize("alert", ALERTS.values(), ids=lambda alert: alert.name)
def test_every_alert_says_who_hears_it_what_it_means_and_where_to_read_on(alert):
    body: Any = alert.body(Installation())
    assert body["labels"]["severity"] in {"page", "ticket"}
    assert body["annotations"]["summary"]
    assert body["annotations"]["description"]
    assert body["annotations"]["runbook_url"] == f"alerts/runbooks.md#{alert.name.lower()}"


def test_every_alert_has_a_runbook_entry_and_every_entry_an_alert():
    text = (Path(__file__).parents[2] / RUNBOOKS).read_text()
    assert set(re.findall(r"^### (\w+)$", text, re.MULTILINE)) == set(ALERTS)


def test_recorded_names_follow_level_metric_operations():
    ours = [rule for rule in all_recordings() if not rule.labels]
    assert all(re.fullmatch(r"[a-z_]+:[a-z0-9_]+:[a-z0-9_]+", rule.record) for rule in ours)


def test_a_name_outside_the_contract_cannot_be_used():
    with pytest.raises(KeyError):
        series("moe_unknown_total")
    with pytest.raises(KeyError):
        series("moe_all_to_all_seconds")
    with pytest.raises(KeyError):
        buckets("moe_assignments_total")


def test_a_hold_can_be_set_for_an_installation_and_changes_nothing_else():
    usual, quick = (yaml.safe_load(rules(installation)["trimtab.rules.yaml"]) for installation in (
        Installation(), Installation(holds={"MoeBiasDrift": "1s"}),
    ))  # fmt: skip
    (drift,) = (
        rule
        for group in quick["groups"]
        for rule in group["rules"]
        if rule.get("alert") == "MoeBiasDrift"
    )
    assert drift["for"] == "1s"
    drift["for"] = ALERTS["MoeBiasDrift"].hold
    assert quick == usual


def test_a_hold_for_an_alert_that_does_not_exist_is_refused():
    with pytest.raises(KeyError, match="no alert is called 'MoeDrift'"):
        rules(Installation(holds={"MoeDrift": "1s"}))
