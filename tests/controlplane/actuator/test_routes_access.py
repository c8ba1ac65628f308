"""Who may do what, and what is served of decisions and the audit log."""

import pytest

from contract.headers import ALERTMANAGER_PATH
from tests.support.acting import ENGINE


def test_policies_are_versioned_and_assigned_by_administrators(api):
    document = api.ask("viewer", "GET", "/api/v1/policies/fast").json()["policy"]
    document["settle_seconds"] = 9
    wish = {"policy": document, "note": "slower"}
    saved = api.ask("admin", "PUT", "/api/v1/policies/fast", json=wish)
    assert saved.json()["version"] == 2, saved.text
    assigned = api.ask(
        "admin", "PUT", f"{ENGINE}/policy",
        json={"policy": "fast", "modes": {"router_bias": "approve"}},
    ).json()  # fmt: skip
    assert (assigned["policy_version"], assigned["modes"]["router_bias"]) == (2, "approve")
    kinds = [e["kind"] for e in api.ask("viewer", "GET", "/api/v1/audit").json()]
    assert kinds[:2] == ["policy.assigned", "policy.saved"]


@pytest.mark.parametrize(
    ("change", "field"),
    [({"settle_seconds": -1}, "settle_seconds"), ({"name": "other"}, "policy.name")],
)
def test_a_bad_policy_names_its_field(api, change, field):
    document = api.ask("viewer", "GET", "/api/v1/policies/fast").json()["policy"]
    wish = {"policy": {**document, **change}}
    answer = api.ask("admin", "PUT", "/api/v1/policies/fast", json=wish)
    assert (answer.status_code, answer.json()["field"]) == (422, field)


@pytest.mark.parametrize(
    ("role", "method", "path"),
    [
        ("viewer", "POST", "/api/v1/actions/a/approve"),
        ("viewer", "POST", "/api/v1/freezes"),
        ("viewer", "POST", f"{ENGINE}/router-bias/rollback"),
        ("viewer", "POST", f"{ENGINE}/config/rollback"),
        ("viewer", "POST", f"{ENGINE}/router-bias/mark-good"),
        ("viewer", "POST", "/api/v1/knob-pins"),
        ("operator", "PUT", "/api/v1/policies/fast"),
        ("operator", "PUT", f"{ENGINE}/policy"),
        ("operator", "POST", ALERTMANAGER_PATH),
    ],
)
def test_a_role_too_low_is_forbidden_and_audited(api, role, method, path):
    assert api.ask(role, method, path, json={}).status_code == 403
    denied = api.ask("viewer", "GET", "/api/v1/audit?kind=access.denied").json()[0]
    assert (denied["actor"], denied["subject"]) == (role, f"{method} {path}")


def test_nothing_is_shown_without_a_token(api):
    for path in ("/api/v1/actions", "/api/v1/decisions", "/api/v1/audit", "/api/v1/freezes"):
        assert api.client.get(path).status_code == 401


def test_decisions_and_the_audit_log_are_served_verified_and_exported(api):
    api.beat(seconds=40)
    listed = api.ask("viewer", "GET", "/api/v1/decisions?engine=engine-0").json()
    detail = api.ask("viewer", "GET", f"/api/v1/decisions/{listed[0]['decision_id']}").json()
    assert detail["snapshot"]["engine_id"] == "engine-0"
    assert detail["evidence"]["slos"]
    api.ask("viewer", "POST", "/api/v1/freezes", json={})
    assert api.ask("viewer", "GET", "/api/v1/audit/verify").json()["holds"]
    exported = api.ask("viewer", "GET", "/api/v1/audit/export")
    assert len(exported.text.splitlines()) >= 1
    assert api.ask("viewer", "GET", "/api/v1/decisions/none").status_code == 404


def test_the_leader_is_shown(api):
    api.beat()
    leader = api.ask("viewer", "GET", "/api/v1/leader").json()
    assert leader["leads"]
    assert leader["holder"] == leader["this_process"]
