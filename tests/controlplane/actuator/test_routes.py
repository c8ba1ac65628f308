"""The JSON API of acting, over the real application and a real engine on loopback."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from fastapi import FastAPI
from pydantic import SecretStr
from starlette.testclient import TestClient

from contract.headers import ALERTMANAGER_PATH
from controlplane.app import create_app
from controlplane.auth.roles import Role
from controlplane.clock import ManualClock
from controlplane.scheduling.governor import Governor
from controlplane.settings import EngineSettings, GovernorSettings, Settings
from tests.support.contract_engine import ContractEngine
from tests.support.databases import without_fsync
from tests.support.plant import Plant

ENGINE = "/api/v1/engines/engine-0"


@dataclass
class Api:
    """The application, its only engine, and one client per role."""

    app: FastAPI
    client: TestClient
    engine: ContractEngine
    clock: ManualClock
    plant: Plant

    @property
    def governor(self) -> Governor:
        governor: Governor = self.app.state.governor
        return governor

    def ask(self, role: str, method: str, path: str, **options: Any) -> Any:
        headers = {"Authorization": f"Bearer {role}-{'x' * 32}", **options.pop("headers", {})}
        return self.client.request(method, path, headers=headers, **options)

    def beat(self, seconds: int = 4, times: int = 1) -> None:
        for _ in range(times):
            self.clock.advance(seconds)
            self.plant.emit(self.clock.now(), seconds)
            lease = self.governor.leader.lease
            if lease.fence() is None:
                lease.tend()
            fence = lease.fence()
            assert fence is not None
            self.governor.evaluate_due(fence)
            self.governor.reconcile(fence)

    def roll_back(self, bias_hash: str, etag: str, **more: Any) -> Any:
        return self.ask(
            "operator", "POST", f"{ENGINE}/router-bias/rollback", headers={"If-Match": etag},
            json={"bias_hash": bias_hash, "reason": "skew", **more},
        )  # fmt: skip


@pytest.fixture
def api(sqlite_database, loopback_host) -> Iterator[Api]:
    switchboard, base_url = loopback_host
    without_fsync(sqlite_database)
    clock = ManualClock(1_700_000_040.0)
    engine = ContractEngine(now=clock.now)
    with switchboard.mounted(base_url, engine.app()) as url:
        settings = Settings(
            engines=(
                EngineSettings(
                    id="engine-0", url=url, admin_token=SecretStr(engine.token), group="group-0"
                ),
            ),
            governor=GovernorSettings(enabled=False, policy="fast"),
        )
        app = create_app(settings, clock=clock, database=sqlite_database)
        for role in (Role.VIEWER, Role.OPERATOR, Role.ADMIN, Role.ALERTMANAGER):
            app.state.access.tokens.create(
                role.value, role, by="test", secret=f"{role.value}-{'x' * 32}"
            )
        with TestClient(app, base_url="http://127.0.0.1") as client:
            yield Api(app, client, engine, clock, Plant(engine, app.state.history))


def test_an_operator_rolls_a_bias_back_from_the_page_that_they_saw(api):
    bad = api.engine.drift()
    api.beat()
    etag = api.ask("viewer", "GET", f"{ENGINE}/config").json()["etag"]
    made = api.roll_back(api.engine.last_known_good, etag)
    assert made.status_code == 201, made.text
    api.beat(times=12)
    action_id = made.json()["action_id"]
    detail = api.ask("viewer", "GET", f"/api/v1/actions/{action_id}").json()
    assert detail["action"]["phase"] == "succeeded"
    assert (detail["action"]["created_by"], detail["action"]["change"]["before"]) == (
        "operator", bad,
    )  # fmt: skip
    assert detail["events"][0]["kind"] == "action.proposed"
    assert api.engine.live_bias == api.engine.last_known_good
    assert api.engine.document.cause.kind == "operator"


def test_a_stale_page_is_refused_with_what_changed(api):
    etag = api.engine.etag
    api.engine.change(capacity_factor="2")
    answer = api.roll_back(api.engine.last_known_good, etag)
    assert answer.status_code == 409
    assert "kim (capacity_factor 1.25 → 2)" in answer.json()["detail"]
    assert answer.json()["bound"] == api.engine.etag
    assert api.engine.mutations == []


@pytest.mark.parametrize("headers", [{}, {"If-Match": ""}])
def test_a_rollback_without_the_pages_etag_is_refused(api, headers):
    answer = api.ask(
        "operator", "POST", f"{ENGINE}/router-bias/rollback", headers=headers,
        json={"bias_hash": "a" * 64, "reason": "r"},
    )  # fmt: skip
    assert (answer.status_code, answer.json()["field"]) == (422, "If-Match")


def test_a_bias_that_is_stored_nowhere_is_not_found(api):
    answer = api.roll_back("c" * 64, api.engine.etag)
    assert (answer.status_code, answer.json()["field"]) == (404, "bias_hash")


def test_a_config_is_restored_and_becomes_the_baseline(api):
    api.engine.change(capacity_factor="2", chunk_size=1024)
    api.beat()
    made = api.ask(
        "operator", "POST", f"{ENGINE}/config/rollback", json={"to": 0, "reason": "undo"},
        headers={"If-Match": api.engine.etag},
    )  # fmt: skip
    assert made.status_code == 201, made.text
    api.beat(times=8)
    assert api.engine.config.capacity_factor == "1.25"
    control = api.ask("viewer", "GET", f"{ENGINE}/control").json()
    assert control["baseline"]["chunk_size"] == 512


def test_a_kept_action_can_be_taken_back_but_not_a_bias_rollback(api):
    api.beat(seconds=40)
    api.plant.overflow = 0.08
    api.beat(times=12)
    kept = api.ask("viewer", "GET", "/api/v1/actions").json()[0]
    assert kept["phase"] == "succeeded"
    reverted = api.ask("operator", "POST", f"/api/v1/actions/{kept['action_id']}/revert")
    assert reverted.status_code == 201, reverted.text
    assert reverted.json()["revert_of"] == kept["action_id"]
    api.beat(times=1)
    assert api.engine.config.capacity_factor == "1.25"


def test_an_open_action_is_aborted_and_a_final_one_is_not(api):
    api.beat(seconds=40)
    api.plant.overflow = 0.08
    api.beat(times=4)
    running = api.ask("viewer", "GET", "/api/v1/actions").json()[0]
    assert running["phase"] in {"settling", "verifying"}
    path = f"/api/v1/actions/{running['action_id']}/abort"
    assert api.ask("operator", "POST", path).status_code == 200
    api.beat()
    assert api.engine.config.capacity_factor == "1.25"
    assert api.ask("operator", "POST", path).status_code == 409


def test_the_kill_switch_reaches_the_engine_and_stops_what_is_in_flight(api):
    api.beat(seconds=40)
    api.plant.overflow = 0.08
    api.beat(times=4)
    made = api.ask(
        "operator", "POST", "/api/v1/freezes",
        json={"scope": "fleet", "reason": "drill", "ttl_seconds": 600},
    )  # fmt: skip
    assert made.status_code == 201, made.text
    assert made.json()["reached"] == {"engine-0": "frozen"}
    assert api.engine.frozen
    api.beat()
    assert api.ask("viewer", "GET", "/api/v1/actions").json()[0]["phase"] == "stopped"
    assert api.engine.config.capacity_factor == "1.5"
    lifted = api.ask("operator", "DELETE", f"/api/v1/freezes/{made.json()['freeze_id']}")
    assert lifted.json()["lifted_by"] == "operator"
    assert not api.engine.frozen


def test_a_freeze_that_reverts_leaves_the_engine_open_until_it_has(api):
    api.beat(seconds=40)
    api.plant.overflow = 0.08
    api.beat(times=4)
    wish = {"scope": "engine:engine-0", "reason": "r", "ttl_seconds": 600, "revert": True}
    assert api.ask("operator", "POST", "/api/v1/freezes", json=wish).json()["reached"] == {}
    api.beat()
    assert api.engine.config.capacity_factor == "1.25"
    api.governor.halts.expire(epoch=1)
    assert api.engine.frozen


def test_a_freeze_ends_by_itself(api):
    wish = {"scope": "group:group-0", "reason": "r", "ttl_seconds": 60}
    api.ask("operator", "POST", "/api/v1/freezes", json=wish)
    api.clock.advance(61)
    api.governor.halts.expire(epoch=1)
    assert not api.engine.frozen
    assert api.ask("viewer", "GET", "/api/v1/freezes").json() == []


def test_a_freeze_that_someone_set_on_the_engine_stays(api):
    api.engine.frozen, api.engine.freeze_reason = True, "bench"
    wish = {"scope": "fleet", "reason": "r", "ttl_seconds": 60}
    made = api.ask("operator", "POST", "/api/v1/freezes", json=wish).json()
    api.ask("operator", "DELETE", f"/api/v1/freezes/{made['freeze_id']}")
    assert api.engine.freeze_reason == "bench"


@pytest.mark.parametrize("scope", ["galaxy", "group:none", "engine:none"])
def test_a_scope_that_covers_nothing_is_refused(api, scope):
    wish = {"scope": scope, "reason": "r", "ttl_seconds": 60}
    assert api.ask("operator", "POST", "/api/v1/freezes", json=wish).status_code == 422


def test_pins_are_set_listed_and_removed(api):
    wish = {"engine_id": "engine-0", "knob": "chunk_size", "reason": "trial"}
    assert api.ask("operator", "POST", "/api/v1/knob-pins", json=wish).status_code == 201
    assert api.ask("viewer", "GET", "/api/v1/knob-pins").json()[0]["author"] == "operator"
    path = "/api/v1/knob-pins/engine-0/chunk_size"
    assert api.ask("operator", "DELETE", path).status_code == 204
    assert api.ask("operator", "DELETE", path).status_code == 404


def test_marking_good_keeps_the_shares_and_is_audited(api):
    api.beat(seconds=40)
    answer = api.ask("operator", "POST", f"{ENGINE}/router-bias/mark-good", json={})
    assert answer.status_code == 200, answer.text
    event = api.ask("viewer", "GET", "/api/v1/audit?kind=bias.").json()[0]
    assert event["value_to"] == api.engine.live_bias
    assert event["detail"]["reference_windows"] >= 9
    assert api.governor.references.of("engine-0") is not None


def test_what_if_is_passed_on_and_checked(api):
    good = api.engine.last_known_good
    answer = api.ask("viewer", "POST", f"{ENGINE}/what-if", json={"bias_hash": good})
    assert answer.json()["sampled_steps"] == 16
    assert api.ask("viewer", "POST", f"{ENGINE}/what-if", json={}).status_code == 422


def test_an_engine_that_does_not_answer_is_a_bad_gateway(api):
    api.engine.trouble.down = True
    answer = api.ask("viewer", "GET", f"{ENGINE}/config")
    assert (answer.status_code, answer.json()["type"]) == (502, "engine-unreachable")


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


def test_the_webhook_answers_and_the_inbox_shows_what_became_of_it(api):
    webhook = {
        "version": "4", "groupKey": "g", "truncatedAlerts": 0, "status": "firing",
        "alerts": [{"status": "firing", "labels": {"alertname": "DiskFull"}, "fingerprint": "f",
                    "startsAt": "2026-01-01T00:00:00Z", "endsAt": "0001-01-01T00:00:00Z"}],
    }  # fmt: skip
    first = api.ask("alertmanager", "POST", ALERTMANAGER_PATH, json=webhook)
    assert first.json() == {"new": 1, "known": 0}
    assert api.ask("alertmanager", "POST", ALERTMANAGER_PATH, json=webhook).json()["known"] == 1
    assert api.ask("viewer", "GET", "/api/v1/alerts").json()[0]["state"] == "pending"


def test_the_leader_is_shown(api):
    api.beat()
    leader = api.ask("viewer", "GET", "/api/v1/leader").json()
    assert leader["leads"]
    assert leader["holder"] == leader["this_process"]
