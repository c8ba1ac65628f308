import json
from dataclasses import replace

import pytest

from trimtab.demo.phase import PhaseFigures
from trimtab.demo.report import (
    RECOVERED,
    ActionReport,
    DemoReport,
    bias_verdict,
    load_verdict,
    quiet_verdict,
    table,
)

PHASE = PhaseFigures(
    tau=0.10, tau_se=0.01, card_cv=0.01, overflow_rate=0.01, gate_mass_kept=0.99,
    probe_nll=1.30, ttft_p99_s=0.1, tpot_p99_s=0.03, requests=100, errors=0,
)  # fmt: skip
DURING = replace(PHASE, tau=0.8, probe_nll=1.4)
ACTION = ActionReport("router_bias", "a" * 64, "b" * 64, "auto", "pass")


def test_a_skew_that_rose_and_came_back_is_recovered() -> None:
    assert bias_verdict(PHASE, DURING, PHASE, ACTION) == RECOVERED


@pytest.mark.parametrize(
    ("before", "during", "after", "action", "why"),
    [
        (PHASE, DURING, PHASE, None, "no bias rollback"),
        (PHASE, DURING, PHASE, replace(ACTION, verify="fail"), "verification said fail"),
        (PHASE, replace(DURING, tau=0.11), PHASE, ACTION, "hardly moved"),
        (PHASE, DURING, replace(PHASE, tau=0.2), ACTION, "did not come back"),
        (PHASE, DURING, replace(PHASE, probe_nll=1.32), ACTION, "answers are worse"),
        (replace(PHASE, tau=None), DURING, PHASE, ACTION, "too few tokens"),
    ],
)
def test_every_way_not_to_recover_is_named(
    before: PhaseFigures, during: PhaseFigures, after: PhaseFigures, action: ActionReport | None,
    why: str,
) -> None:  # fmt: skip
    assert why in bias_verdict(before, during, after, action)


def test_after_may_leave_the_tolerance_but_not_its_interval() -> None:
    wide = replace(PHASE, tau_se=0.05)
    assert bias_verdict(wide, DURING, replace(PHASE, tau=0.2), ACTION) == RECOVERED


def test_a_quiet_run_fails_when_the_bias_was_touched() -> None:
    assert quiet_verdict(PHASE, PHASE, 0) == RECOVERED
    assert "1 actions on the bias" in quiet_verdict(PHASE, PHASE, 1)


@pytest.mark.parametrize(
    ("acted", "relaxed", "healthy", "why"),
    [
        (False, True, True, "no knob"),
        (True, False, True, "not relaxed"),
        (True, True, False, "SLO"),
    ],
)
def test_a_storm_must_be_answered_and_relaxed(
    acted: bool, relaxed: bool, healthy: bool, why: str
) -> None:
    assert why in load_verdict(PHASE, acted=acted, relaxed=relaxed, healthy=healthy)
    assert load_verdict(PHASE, acted=True, relaxed=True, healthy=True) == RECOVERED


def test_the_json_has_what_scripts_read() -> None:
    report = DemoReport(
        verdict=RECOVERED, fault="wrong-sign", injected_at_s=1.0, detected_after_s=2.0,
        acted_after_s=3.0, recovered_after_s=4.0, action=ACTION, before=PHASE, during=DURING,
        after=PHASE, frames={"sent": 3, "stored": 3, "gaps": 0},
        engine={"ranks": 2, "layers": 3, "experts": 128, "top_k": 8},
        traffic={"trace": "t", "rate_scale": 1.0, "length_scale": 1.0}, actions=[],
    )  # fmt: skip
    body = json.loads(report.to_json())
    assert set(body["action"]) == {"knob", "from", "to", "mode", "verify"}
    assert set(body["before"]) == {
        "tau", "tau_se", "card_cv", "overflow_rate", "gate_mass_kept", "probe_nll", "ttft_p99_s",
        "tpot_p99_s", "requests", "errors",
    }  # fmt: skip
    assert table(report).row_count == 10
