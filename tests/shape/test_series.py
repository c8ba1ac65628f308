"""Every series that a panel or a rule reads is declared or recorded."""

import re

import pytest

from alerts.build import all_alerts, all_recordings
from contract.metrics import METRICS, Kind
from dashboards.build import build_all, panel_queries
from tests.support.promql import series_names

RECORDED = {rule.record for rule in all_recordings()}
FOREIGN = re.compile(r"^(vllm|sglang):")
SUFFIXES = ("_bucket", "_sum", "_count")


def declared(name: str) -> bool:
    if name in METRICS:
        return METRICS[name].kind is not Kind.HISTOGRAM
    base, found = next(
        ((name.removesuffix(end), end) for end in SUFFIXES if name.endswith(end)), (name, "")
    )
    return bool(found) and base in METRICS and METRICS[base].kind is Kind.HISTOGRAM


def known(name: str) -> bool:
    return declared(name) or name in RECORDED or name == "up"


@pytest.mark.parametrize("file", build_all())
def test_every_series_of_a_dashboard_is_declared(file):
    names = {name for expr in panel_queries(build_all()[file]) for name in series_names(expr)}
    assert names
    assert not {name for name in names if not declared(name)}


def test_every_series_of_an_alert_is_declared_or_recorded():
    unknown = {
        (alert.name, name)
        for alert in all_alerts()
        for name in series_names(alert.expr)
        if not known(name)
    }
    assert not unknown


def test_every_series_of_a_recording_rule_is_declared_recorded_or_of_another_engine():
    unknown = {
        (rule.record, name)
        for rule in all_recordings()
        for name in series_names(rule.expr)
        if not (known(name) or FOREIGN.match(name))
    }
    assert not unknown


def test_every_recorded_series_is_read_or_named_as_ours():
    read = {name for alert in all_alerts() for name in series_names(alert.expr)}
    read |= {name for rule in all_recordings() for name in series_names(rule.expr)}
    shown = {"engine_layer:moe_overflow:ratio_rate5m"} | {n for n in RECORDED if ":p99_" in n}
    assert {n for n in RECORDED if n not in read | shown and not declared(n)} == set()


def test_every_metric_of_the_contract_is_on_a_dashboard_or_in_an_alert():
    everywhere = [expr for content in build_all().values() for expr in panel_queries(content)]
    everywhere += [alert.expr for alert in all_alerts()]
    everywhere += [rule.expr for rule in all_recordings()]
    read = {name for expr in everywhere for name in series_names(expr)}
    read |= {name.removesuffix(end) for name in read for end in SUFFIXES}
    assert set(METRICS) - read == set()
