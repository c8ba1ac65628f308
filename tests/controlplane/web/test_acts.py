"""What people do through the pages: approve, roll back, freeze, pin, assign, log out."""

import re

import pytest

from controlplane.auth.roles import Role


def rollback_form(site, to: str, kind: str = "bias") -> dict[str, str]:
    page = site.browsers[Role.OPERATOR].get(f"/engines/engine-0/rollback?kind={kind}&to={to}").text
    (etag,) = re.findall(r'name="if_match" value="([^"]*)"', page)
    return {
        "kind": kind, "to": to, "reason": "drift", "if_match": etag.replace("&#34;", '"'),
    }  # fmt: skip


def test_an_approved_rollback_is_carried_out_and_shown(drifted):
    answer = drifted.post(Role.OPERATOR, f"/actions/{drifted.action_id}/approve")
    assert answer.headers["location"] == f"/actions/{drifted.action_id}"
    drifted.run(40)
    html = drifted.browsers[Role.VIEWER].get(f"/actions/{drifted.action_id}").text
    assert "succeeded" in html
    assert "approved by anna-operator" in html
    assert drifted.engine.live_bias == drifted.engine.last_known_good


def test_a_rejected_action_says_why(drifted):
    drifted.post(Role.OPERATOR, f"/actions/{drifted.action_id}/reject", {"reason": "known test"})
    html = drifted.browsers[Role.VIEWER].get(f"/actions/{drifted.action_id}").text
    assert "rejected by anna-operator: known test" in html


def test_acting_twice_is_a_conflict_page(drifted):
    drifted.post(Role.OPERATOR, f"/actions/{drifted.action_id}/approve")
    again = drifted.post(Role.OPERATOR, f"/actions/{drifted.action_id}/approve")
    assert again.status_code == 409
    assert "does not wait for approval" in again.text


def test_a_bias_is_rolled_back_from_the_page(site):
    site.engine.drift()
    form = rollback_form(site, site.engine.last_known_good)
    answer = site.post(Role.OPERATOR, "/engines/engine-0/rollback", form)
    assert answer.status_code == 303
    site.run(4)
    assert site.engine.live_bias == site.engine.last_known_good
    site.run(40)
    page = site.browsers[Role.VIEWER].get(answer.headers["location"]).text
    assert "succeeded" in page
    assert "anna-operator" in site.browsers[Role.VIEWER].get("/audit?kind=action").text


def one_click_form(site, role: Role) -> dict[str, str]:
    """What the one-click form of the engine's page would send; empty without one."""
    page = site.browsers[role].get("/engines/engine-0").text
    form = page.partition('id="rollback-now"')[2].partition("</form>")[0]
    assert "checkbox" not in form
    return {
        name: value.replace("&#34;", '"').replace("&#39;", "'")
        for name, value in re.findall(r'name="(\w+)"[^>]* value="([^"]*)"', form)
    }


def test_one_click_and_enter_roll_the_bias_back_with_the_evidence_as_the_reason(drifted):
    form = one_click_form(drifted, Role.OPERATOR)
    assert form["to"] == drifted.engine.last_known_good
    assert form["reason"].startswith("bias drift: ")
    assert drifted.csrf(Role.OPERATOR) == form["csrf_token"]
    drifted.post(Role.OPERATOR, f"/actions/{drifted.action_id}/reject", {"reason": "by hand"})
    answer = drifted.post(Role.OPERATOR, "/engines/engine-0/rollback", form)
    assert answer.status_code == 303
    drifted.run(4)
    assert drifted.engine.live_bias == drifted.engine.last_known_good
    audit = drifted.browsers[Role.VIEWER].get("/api/v1/audit?kind=action.proposed").json()
    assert audit[0]["actor"] == "anna-operator"


def test_without_evidence_the_reason_is_that_an_operator_wants_it(site):
    site.engine.drift()
    site.run(2)
    assert one_click_form(site, Role.OPERATOR)["reason"] == "operator rollback"


def test_one_click_is_offered_to_operators_only_and_only_while_another_bias_is_live(drifted):
    assert one_click_form(drifted, Role.VIEWER) == {}
    form = one_click_form(drifted, Role.OPERATOR)
    refused = drifted.browsers[Role.VIEWER].post("/engines/engine-0/rollback", data=form)
    assert refused.status_code == 403
    drifted.post(Role.OPERATOR, f"/actions/{drifted.action_id}/approve")
    drifted.run(40)
    assert one_click_form(drifted, Role.OPERATOR) == {}


def test_a_one_click_form_that_is_stale_rolls_nothing_back(drifted):
    form = one_click_form(drifted, Role.OPERATOR)
    drifted.engine.change(actor="kim", capacity_factor="1.5")
    assert drifted.post(Role.OPERATOR, "/engines/engine-0/rollback", form).status_code == 409


def test_single_layers_are_rolled_back(site):
    site.engine.drift()
    form = rollback_form(site, site.engine.last_known_good)
    made = site.post(
        Role.OPERATOR, "/engines/engine-0/rollback", {**form, "all_layers": "2", "layers": ["1"]}
    )
    action = site.browsers[Role.VIEWER].get(f"/api/v1{made.headers['location']}").json()["action"]
    assert action["change"]["layers"] == [1]
    none = site.post(Role.OPERATOR, "/engines/engine-0/rollback", {**form, "all_layers": "2"})
    assert none.status_code == 422


def test_a_config_is_rolled_back_from_the_page(site):
    site.engine.change(max_concurrency=32)
    site.run(12)
    answer = site.post(
        Role.OPERATOR, "/engines/engine-0/rollback", rollback_form(site, "0", kind="config")
    )
    assert answer.status_code == 303
    site.run(4)
    assert site.engine.config.max_concurrency == 64


@pytest.mark.parametrize("kind", ["bias", "config"])
def test_a_stale_page_rolls_nothing_back_and_says_what_changed(site, kind):
    site.engine.change(max_concurrency=48)
    site.engine.drift()
    form = rollback_form(site, site.engine.last_known_good if kind == "bias" else "0", kind)
    site.engine.change(actor="kim", capacity_factor="1.5")
    before = len(site.engine.mutations)
    answer = site.post(Role.OPERATOR, "/engines/engine-0/rollback", form)
    assert answer.status_code == 409
    for word in ("Nothing was rolled back", "capacity factor", "1.25", "1.5", "by kim"):
        assert word in answer.text
    site.run(4)
    assert len(site.engine.mutations) == before


def test_a_page_without_its_etag_is_refused(site):
    site.engine.drift()
    form = rollback_form(site, site.engine.last_known_good) | {"if_match": ""}
    assert site.post(Role.OPERATOR, "/engines/engine-0/rollback", form).status_code == 422


def test_a_freeze_shows_everywhere_and_is_lifted(site):
    form = {"scope": "engine:engine-0", "reason": "maintenance", "ttl_seconds": "3600"}
    assert site.post(Role.OPERATOR, "/settings/freezes", form).status_code == 303
    assert "FROZEN" in site.browsers[Role.VIEWER].get("/").text
    page = site.browsers[Role.OPERATOR].get("/settings").text
    (lift,) = re.findall(r'action="(/settings/freezes/[^"]*/lift)"', page)
    assert site.post(Role.OPERATOR, lift).status_code == 303
    assert "FROZEN" not in site.browsers[Role.VIEWER].get("/").text


def test_the_fleet_is_frozen_only_when_its_name_is_typed(site):
    form = {"scope": "fleet", "reason": "storm", "ttl_seconds": "3600"}
    refused = site.post(Role.OPERATOR, "/settings/freezes", form)
    assert refused.status_code == 422
    assert "type the word fleet" in refused.text
    assert site.post(
        Role.OPERATOR, "/settings/freezes", {**form, "typed": "fleet", "engines": "true"}
    ).status_code == 303  # fmt: skip
    assert site.engine.frozen


def test_a_knob_is_pinned_and_unpinned(site):
    form = {"engine_id": "engine-0", "knob": "chunk_size", "reason": "test", "ttl_seconds": "60"}
    assert site.post(Role.OPERATOR, "/settings/pins", form).status_code == 303
    assert "pinned by anna-operator" in site.browsers[Role.VIEWER].get("/engines/engine-0").text
    bad = site.post(Role.OPERATOR, "/settings/pins", {**form, "ttl_seconds": "soon"})
    assert bad.status_code == 422
    assert "ttl_seconds" in bad.text
    site.post(Role.OPERATOR, "/settings/pins/remove", form)
    assert "pinned by" not in site.browsers[Role.VIEWER].get("/engines/engine-0").text


def test_a_policy_is_assigned_with_modes_and_saved_as_a_version(site):
    form = {"engine_id": "engine-0", "policy": "default", "router_bias": "shadow"}
    assert site.post(Role.ADMIN, "/policies/assign", form).status_code == 303
    governing = site.browsers[Role.VIEWER].get("/api/v1/engines/engine-0/policy").json()
    assert (governing["policy"], governing["modes"]["router_bias"]) == ("default", "shadow")
    bad = site.post(Role.ADMIN, "/policies/assign", {**form, "router_bias": "maybe"})
    assert bad.status_code == 422
    page = site.browsers[Role.ADMIN].get("/policies/fast").text
    (document,) = re.findall(r"<textarea[^>]*>(.*?)</textarea>", page, re.DOTALL)
    changed = document.replace("tick_seconds: 1.0", "tick_seconds: 2.0").replace("&#39;", "'")
    saved = site.post(
        Role.ADMIN, "/policies/fast", {"document": changed.replace("&#34;", '"'), "note": "slower"}
    )
    assert saved.status_code == 303, saved.text
    assert "version 2" in site.browsers[Role.VIEWER].get("/policies/fast").text
    wrong = site.post(Role.ADMIN, "/policies/fast", {"document": "name: [", "note": "x"})
    assert wrong.status_code == 422


def test_a_token_is_shown_once(site):
    form = {"name": "grafana", "role": "viewer", "days": "30"}
    made = site.post(Role.ADMIN, "/settings/tokens", form)
    (secret,) = re.findall(r'class="secret"[^>]*>([^<]+)<', made.text)
    assert secret not in site.browsers[Role.ADMIN].get("/settings").text
    bearer = {"Authorization": f"Bearer {secret}"}
    assert site.anonymous.get("/api/v1/fleet", headers=bearer).status_code == 200
    site.post(Role.ADMIN, "/settings/tokens/revoke", {"name": "grafana"})
    assert site.anonymous.get("/api/v1/fleet", headers=bearer).status_code == 401


def test_a_login_link_made_on_the_page_opens_a_session(site):
    made = site.post(Role.ADMIN, "/settings/login-links", {"name": "kim", "role": "viewer"})
    (link,) = re.findall(r"http://127\.0\.0\.1(/login\?link=[\w-]+)", made.text)
    assert site.anonymous.get(link).status_code == 200
    assert "kim" in site.anonymous.get("/", headers={"Accept": "text/html"}).text


def test_an_engine_is_added_and_removed(site):
    form = {"engine_id": "e9", "url": "http://127.0.0.1:9", "group": "g9"}
    assert site.post(Role.ADMIN, "/settings/engines", form).status_code == 303
    assert "e9" in site.browsers[Role.VIEWER].get("/").text
    assert site.post(Role.ADMIN, "/settings/engines/remove", form).status_code == 303
    kept = site.post(Role.ADMIN, "/settings/engines/remove", {"engine_id": "engine-0"})
    assert kept.status_code == 409


def test_logging_out_ends_the_session(site):
    assert site.post(Role.VIEWER, "/log-out").headers["location"] == "/login"
    assert site.browsers[Role.VIEWER].get("/").status_code == 401
