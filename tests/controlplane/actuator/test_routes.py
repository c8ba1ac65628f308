"""The JSON API of acting, over the real application and a real engine on loopback."""

import pytest

from contract.headers import ALERTMANAGER_PATH
from tests.support.acting import ENGINE


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
