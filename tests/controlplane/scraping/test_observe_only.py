"""An observe-only engine is judged and shown, and nothing is ever done to it."""

import re

import pytest
from starlette.testclient import TestClient

from controlplane.app import create_app
from controlplane.audit import decisions
from controlplane.errors import InvalidInputError, ObserveOnlyError
from controlplane.settings import load_settings
from tests.controlplane.scraping.conftest import ADMIN
from tests.support.expositions import OBSERVED, vllm
from tests.support.frames import START

LACKING = [
    "failed", "finished", "inter_token", "prefill_tokens", "queue_time", "rejected", "request_time",
]  # fmt: skip
SIZES = ("layers", "experts", "top_k", "ranks")


@pytest.fixture
def client(app, plane):
    # Not entered: the plane is started by its own fixture.
    return TestClient(app, headers={"Authorization": f"Bearer {ADMIN}"})


@pytest.fixture
def watched(scrape):
    """A minute of traffic: a tenth of the first tokens between 0.1 and 0.25 s, TPOT too slow."""
    scrape(vllm())
    for tick in range(1, 15):
        scrape(vllm((90 * tick, 10 * tick, 0, 0, 0), (0, 0, 10 * tick, 90 * tick, 0)))


@pytest.fixture
def fence(plane):
    lease = plane.governor.leader.lease
    lease.tend()
    return lease.fence()


def test_the_governor_judges_it_and_refuses_to_act_with_that_reason(plane, watched, fence):
    evaluated = plane.governor.evaluator.evaluate(OBSERVED, fence)
    assert evaluated is not None
    assert evaluated.action_id is None
    decision = evaluated.decision
    assert decision.reason == "observe_only"
    assert decision.proposal is None
    assert "vLLM is read by its metrics" in decision.explanation
    with plane.database.read() as session:
        row = decisions.get(session, evaluated.decision_id)
        assert row is not None
        slos = {slo["slo"]: slo for slo in decisions.snapshot_of(row)["slos"]}
    assert slos.keys() == {"ttft", "tpot"}
    assert slos["ttft"]["interpolated"]
    assert not slos["tpot"]["interpolated"]
    assert slos["tpot"]["budget_remaining_ratio"] < 0
    assert "Interpolated" in slos["ttft"]["message"]


def test_no_job_of_the_governor_asks_its_admin_api(plane, watched, endpoint, fence):
    plane.governor.evaluate_due(fence)
    plane.governor.tend(fence)
    plane.governor.reconcile(fence)
    plane.governor.halts.expire(fence.epoch)
    assert set(endpoint.asked) == {"/metrics"}
    exposed = plane.instruments.render().decode()
    assert f'trimtab_slo_budget_remaining_ratio{{engine="{OBSERVED}",slo="tpot"}}' in exposed
    assert f'trimtab_engine_reachable{{engine="{OBSERVED}"}}' not in exposed


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "config", None),
        ("GET", "control", None),
        ("GET", "router-bias", None),
        ("POST", "config/rollback", {"to": 1, "reason": "x"}),
        ("POST", "router-bias/rollback", {"bias_hash": "a" * 64, "reason": "x"}),
        ("POST", "router-bias/mark-good", {}),
        ("POST", "what-if", {"capacity_factor": "2"}),
    ],
)
def test_an_operator_is_refused_with_that_reason(client, endpoint, method, path, body):
    answer = client.request(
        method, f"/api/v1/engines/{OBSERVED}/{path}", json=body, headers={"If-Match": '"1-a"'}
    )
    assert (answer.status_code, answer.json()["type"]) == (409, "observe-only")
    assert "never acted on" in answer.json()["detail"]
    assert endpoint.asked == []


def test_a_freeze_of_it_alone_covers_nothing(plane):
    with pytest.raises(InvalidInputError, match="covers no engine"):
        plane.governor.halts.freeze(
            scope=f"engine:{OBSERVED}", reason="x", author="kim", ttl_seconds=60, revert=False,
            tell_engines=True, epoch=1,
        )  # fmt: skip


def test_the_admin_api_is_refused_to_whoever_asks(plane):
    with pytest.raises(ObserveOnlyError):
        plane.governor.admins.of(OBSERVED)


def test_json_and_pages_show_it_as_observe_only(client, plane, watched, fence):
    plane.governor.evaluator.evaluate(OBSERVED, fence)
    (shown,) = client.get("/api/v1/fleet").json()
    assert (shown["observe_only"], shown["states"]) == ("vllm", ["OBSERVE ONLY"])
    assert (shown["config"], shown["running"], shown["model"]) == (None, 3, "tiny")
    assert shown["missing"] == LACKING
    assert {shown[name] for name in SIZES} == {None}
    load = shown["load"]
    assert (load["running"], load["queued"], load["tokens_per_step"]) == (3, 2, None)
    assert (load["slots_at_rung"], load["prefill_token_share"]) == ({}, None)
    (listed,) = client.get("/api/v1/engines").json()
    assert listed["observe_only"] == "vllm"
    assert {listed[name] for name in (*SIZES, "config_generation")} == {None}
    for path in ("/", f"/engines/{OBSERVED}", "/settings", f"/decisions?engine={OBSERVED}"):
        page = client.get(path, headers={"Accept": "text/html"})
        assert page.status_code == 200, path
    assert "OBSERVE ONLY" in client.get("/").text


def test_its_page_waits_for_nothing_that_never_comes(client, plane, watched, fence):
    plane.governor.evaluator.evaluate(OBSERVED, fence)
    page = client.get(f"/engines/{OBSERVED}").text
    assert "vLLM exports no expert loads" in page
    assert re.findall(r'data-chart="(\w+)"', page) == ["ttft", "tpot"]  # what it measures
    assert re.findall(r'<select name="(\w+)"', page) == ["window"]
    assert "3 running, 2 waiting" in page
    assert "gaps between tokens, prompt tokens, time in queue" in page
    for never in (
        "heatmap", "Waiting for the first matrix", "No matrix yet", "No evaluation with counts yet",
        "Versions and rollback", "Config and bias", "config generation", "load CV",
    ):  # fmt: skip
        assert never not in page, never


def test_the_settings_say_what_kind_of_engine_it_is(client, plane):
    (engine,) = client.get("/api/v1/settings").json()["engines"]
    assert engine["kind"] == "vllm"
    page = client.get("/settings").text
    columns = re.findall(r'<th scope="col">([^<]*)</th>', page[page.index('id="engines"') :])
    assert columns[:3] == ["Id", "Kind", "URL"]
    assert re.search(rf"{OBSERVED}</a></th><td>vllm .*observe-only", page)
    assert f"<option>{OBSERVED}" not in page  # neither frozen, pinned nor given a token
    assert f'value="engine:{OBSERVED}"' not in page


def test_before_anything_was_read_its_page_lists_nothing_as_missing(client):
    page = client.get(f"/engines/{OBSERVED}").text
    assert "No frame has arrived yet." in page
    assert "Not in its metrics" not in page
    assert "None" not in page.replace("None yet.", "")


def test_an_engine_that_is_configured_no_more_is_still_shown_as_what_it_was(
    watched, sqlite_url, clock
):
    settings = load_settings(
        database_url=sqlite_url, governor={"enabled": False}, auth={"admin_token": ADMIN}
    )
    app = create_app(settings, clock=clock)
    app.state.plane.start()
    try:
        client = TestClient(app, headers={"Authorization": f"Bearer {ADMIN}"})
        (shown,) = client.get("/api/v1/fleet").json()
    finally:
        app.state.plane.stop()
    assert (shown["observe_only"], shown["configured"]) == ("vllm", False)
    assert (shown["config"], shown["experts"], shown["missing"]) == (None, None, LACKING)
    assert "its metrics are not read" in shown["told"]


def test_the_history_states_only_what_was_measured(client, scrape):
    for silence in (5.0, 3600.0):  # two boots: reading begins anew after a long silence
        scrape(vllm(), after=silence)
        scrape(_without("vllm:kv_cache_usage_perc", vllm((1, 0, 0, 0, 0), generated=50)))
    span = f"start={START}&end={START + 4000}"
    changes = client.get(f"/api/v1/engines/{OBSERVED}/timeline?{span}").json()["changes"]
    assert changes == []
    boots = client.get(f"/api/v1/engines/{OBSERVED}/boots").json()
    assert len(boots) == 2
    for boot in boots:
        header = boot["header"]
        assert header.keys() == {
            "contract_version", "engine_id", "group", "model", "boot_id", "sequence",
            "started_unix_seconds", "interval_seconds", "tokens", "gauges", "requests",
            "histogram_sums", "observed",
        }  # fmt: skip
        assert header["gauges"] == {"running": 3, "queued": 2}
        assert header["requests"] == {"tpot_measured": 0}
        assert header["tokens"] == [None, 50]
    charts = client.get(f"/api/v1/engines/{OBSERVED}/charts?window=300").json()
    assert charts["marks"] == []
    assert set(charts["series"]["tokens_per_second"]) == {None}  # prompts are not counted
    assert set(charts["series"]["requests_per_second"]) == {None}


def test_a_gauge_that_the_metrics_lack_is_unknown_not_zero(client, scrape):
    scrape(_without("vllm:num_requests_running", vllm()))
    scrape()
    (shown,) = client.get("/api/v1/fleet").json()
    assert (shown["running"], shown["queued"]) == (None, 2)
    assert "running" in shown["missing"]


def _without(name: str, text: str) -> str:
    return "".join(line for line in text.splitlines(keepends=True) if name not in line)


def test_what_has_no_experts_still_answers(client, watched):
    span = f"start={START}&end={START + 80}"
    for path in (
        f"load?engine={OBSERVED}&{span}", f"engines/{OBSERVED}/charts?window=900",
        f"engines/{OBSERVED}/layers?{span}", f"engines/{OBSERVED}/overflow?{span}",
        f"engines/{OBSERVED}/gaps?{span}", f"engines/{OBSERVED}/boots",
    ):  # fmt: skip
        assert client.get(f"/api/v1/{path}").status_code in (200, 404), path


def test_a_share_is_exact_at_a_bound_of_theirs_and_interpolated_elsewhere(client, watched):
    query = f"kind=ttft&start={START}&end={START + 80}&under=0.25&under=0.2"
    answer = client.get(f"/api/v1/engines/{OBSERVED}/latency?{query}").json()
    assert answer["observed_from"] == "vllm"
    assert answer["exact_bounds"] == [0.1, 0.25, 0.5, 1.0]
    exact, between = answer["under"]
    assert (exact["exact"], exact["low"], exact["high"]) == (True, 1.0, 1.0)
    assert (between["exact"], between["low"], between["high"]) == (False, 0.9, 1.0)
    assert 0.9 < between["estimate"] < 1.0


def test_a_quantile_above_their_last_bound_is_more_than_it_and_no_number(client, scrape):
    scrape(vllm())
    for tick in range(1, 15):
        scrape(vllm((10 * tick, 0, 0, 0, 90 * tick)))  # their last bound is 1 s
    span = f"start={START}&end={START + 80}"
    answer = client.get(f"/api/v1/engines/{OBSERVED}/latency?kind=ttft&{span}&q=0.05&q=0.99").json()
    known, beyond = answer["quantiles"]
    assert (known["low"], known["high"]) == (0.0, 0.1)
    assert 0.0 < known["seconds"] <= 0.1
    assert beyond == {"q": 0.99, "seconds": None, "low": 1.0, "high": None}
    charts = client.get(f"/api/v1/engines/{OBSERVED}/charts?window=300").json()
    seen = [i for i, value in enumerate(charts["series"]["ttft_p99"]) if value is not None]
    assert {charts["series"]["ttft_p99"][i] for i in seen} == {1.0}
    assert charts["more"] == {"ttft_p50": seen, "ttft_p99": seen}


def test_its_page_says_that_the_p99_is_more_than_their_last_bound(client, plane, scrape, fence):
    scrape(vllm())
    for tick in range(1, 15):
        scrape(vllm((10 * tick, 0, 0, 0, 90 * tick)))
    plane.governor.evaluator.evaluate(OBSERVED, fence)
    (shown,) = client.get("/api/v1/fleet").json()
    assert (shown["slos"][0]["value"], shown["slos"][0]["value_is_more"]) == (1.0, True)
    for path in ("/", f"/engines/{OBSERVED}", "/slos"):
        assert "p99 &gt; 1 s" in client.get(path, headers={"Accept": "text/html"}).text, path


def test_a_telemetry_token_for_it_is_refused_in_the_settings(sqlite_url):
    engine = {
        "id": "x", "kind": "sglang", "url": "http://127.0.0.1:1",
        "telemetry_token": "secret-16-long",
    }  # fmt: skip
    with pytest.raises(InvalidInputError, match="read by its metrics"):
        load_settings(database_url=sqlite_url, engines=[engine])


def test_a_page_says_why_its_metrics_cannot_be_read_until_they_can(client, endpoint, scrape):
    scrape()
    endpoint.status = 503
    scrape()
    (shown,) = client.get("/api/v1/fleet").json()
    assert "metrics cannot be read" in shown["told"]
    assert "503" in shown["told"]
    endpoint.status = 200
    scrape()
    assert "cannot be read" not in client.get("/api/v1/fleet").json()[0]["told"]
