"""The query API over a history of frames, sealed minutes and hours."""

import struct
from datetime import datetime

import numpy as np
import pytest

from controlplane.history.upkeep import Upkeep
from tests.support.frames import START

BASE = START - START % 3600


def test_engines_are_listed_by_their_newest_frame(send, get):
    send(5)
    listed = get("/engines")
    assert [view["engine_id"] for view in listed] == ["e0", "e1"]
    assert listed[0]["age_seconds"] == 0
    assert (listed[0]["layers"], listed[0]["experts"]) == (2, 8)


@pytest.mark.parametrize(
    ("seconds", "tiers"), [(90, {"1": 9}), (600, {"60": 9, "1": 6}), (590, {"60": 9, "1": 5})]
)
def test_a_matrix_is_exact_and_fresh_whatever_the_tier(send, seconds, tiers, get):
    total = send(seconds, every=10)["e0"]
    answer = get("/load", engine="e0", start=BASE, end=BASE + seconds)
    assert answer["counts"] == total.sum(axis=0).tolist()
    assert answer["frames"] == seconds // 10
    assert answer["tiers"] == tiers
    assert (answer["start"], answer["end"]) == (BASE, BASE + seconds)


def test_one_phase_can_be_asked_for(send, get):
    total = send(30)["e0"]
    answer = get("/load", engine="e0", start=BASE, end=BASE + 30, phase="decode")
    assert answer["counts"] == total[1].tolist()


def test_an_hour_is_taken_from_the_hourly_sum(app, clock, send, get):
    total = send(3600, engines=("e0",), every=60)["e0"]
    clock.advance(600)
    upkeep = Upkeep(app.state.history)
    upkeep.seal()
    assert upkeep.roll_hours() == 1
    answer = get("/load", engine="e0", start=BASE, end=BASE + 3600)
    assert answer["tiers"] == {"3600": 1}
    assert answer["counts"] == total.sum(axis=0).tolist()


def test_the_fleet_is_the_sum_of_its_engines_up_to_the_newest_sealed_minute(send, get):
    totals = send(120, every=10)
    send(60, first=120, every=10)
    answer = get("/load", start=BASE)
    assert answer["engines"] == ["e0", "e1"]
    assert (answer["end"], answer["tiers"]) == (BASE + 120, {"60": 4})
    assert answer["counts"] == sum(total.sum(axis=0) for total in totals.values()).tolist()


def test_groups_are_apart_and_different_shapes_are_not_added(client, send, get):
    send(30, engines=("e0",))
    send(30, engines=("e9",), group="other", layers=3)
    both = client.get("/api/v1/load", params={"start": BASE, "end": BASE + 30})
    assert both.status_code in (404, 409)
    one = get("/load", group="other", start=BASE, end=BASE + 30)
    assert (one["engines"], one["layers"]) == (["e9"], 3)
    assert client.get("/api/v1/load", params={"group": "none"}).status_code == 404


def test_the_binary_form_holds_the_same_numbers(client, send):
    total = send(30)["e0"]
    response = client.get(
        "/api/v1/load",
        params={"engine": "e0", "start": BASE, "end": BASE + 30, "format": "binary"},
    )
    assert response.headers["content-type"] == "application/vnd.trimtab.load"
    head = struct.Struct("<4sBBHIIddQ")
    magic, version, width, _, layers, experts, start, end, frames = head.unpack_from(
        response.content
    )
    assert (magic, version, width, layers, experts) == (b"TLDM", 1, 4, 2, 8)
    assert (start, end, frames) == (BASE, BASE + 30, 30)
    values = np.frombuffer(response.content, "<u4", offset=head.size).reshape(layers, experts)
    assert np.array_equal(values, total.sum(axis=0))


def test_top_and_bottom_experts_are_relative_to_their_layer(get, send):
    total = send(30)["e0"].sum(axis=0)
    top = get("/engines/e0/experts", start=BASE, end=BASE + 30, layer=1, limit=2)
    bottom = get("/engines/e0/experts", start=BASE, end=BASE + 30, layer=1, limit=1, order="bottom")
    assert top["experts"][0]["expert"] == int(total[1].argmax())
    assert bottom["experts"][0]["expert"] == int(total[1].argmin())
    assert top["experts"][0]["over_mean_ratio"] == pytest.approx(total[1].max() / total[1].mean())


def test_overflow_is_given_at_every_rung(send, get):
    send(30, engines=("e0",))
    answer = get("/engines/e0/overflow", start=BASE, end=BASE + 30)
    assert [rung["capacity_factor"] for rung in answer["rungs"]][:2] == ["1", "1.1"]
    for rung in answer["rungs"]:
        assert rung["overflow"] == sum(rung["by_layer"])
        assert rung["ratio"] == pytest.approx(rung["overflow"] / answer["assignments"])


@pytest.mark.parametrize(
    "kind", ["ttft", "tpot", "inter_token", "queue", "step", "dispatch", "combine"]
)
def test_latencies_have_quantiles_and_exact_shares(send, kind, get):
    send(30, engines=("e0",))
    answer = get("/engines/e0/latency", kind=kind, under=[0.05, 0.051],
                  start=BASE, end=BASE + 30)  # fmt: skip
    assert answer["n"] == sum(answer["cells"]) > 0
    assert [found["q"] for found in answer["quantiles"]] == [0.5, 0.9, 0.99]
    at_bound, between = answer["under"]
    assert at_bound["exact"] == (0.05 in answer["bounds"])
    assert between["low"] <= between["high"]


def test_latency_of_one_generation(send, get):
    send(30, engines=("e0",), generations=(4, 3))
    whole = get("/engines/e0/latency", kind="ttft", start=BASE, end=BASE + 30)
    one = get("/engines/e0/latency", kind="ttft", start=BASE, end=BASE + 30, generation=4)
    other = get("/engines/e0/latency", kind="ttft", start=BASE, end=BASE + 30,
                 generation=3)  # fmt: skip
    assert 0 < one["n"] < whole["n"]
    assert one["n"] + other["n"] == whole["n"]


def test_the_timeline_and_boots_say_what_changed(send, get):
    send(30, engines=("e0",))
    send(30, engines=("e0",), first=30, config_generation=2, live_bias="c" * 64)
    span = {"start": BASE, "end": BASE + 100}
    changes = get("/engines/e0/timeline", **span)["changes"]
    assert [(change["at"], change["generation"]) for change in changes] == [
        (BASE, 1), (BASE + 30, 2),
    ]  # fmt: skip
    page = get("/engines/e0/timeline", **span, limit=1)
    rest = get("/engines/e0/timeline", **span, cursor=page["cursor"])
    assert page["changes"] + rest["changes"] == changes
    (boot,) = get("/engines/e0/boots")
    assert boot["frames"] == 60


def test_gaps_are_told(send, get):
    send(10, engines=("e0",))
    send(10, engines=("e0",), first=15)
    answer = get("/engines/e0/gaps", start=BASE, end=BASE + 60)
    assert answer["frames_missing"] == 5


def test_pins_are_made_and_removed_by_operators(client, send, get):
    send(3, engines=("e0",))
    body = {"engine_id": "e0", "started": 1.0, "ended": 2.0, "reason": "incident"}
    made = client.post("/api/v1/pins", json=body)
    assert made.status_code == 201
    assert [pin["actor"] for pin in get("/pins")] == ["settings:admin"]
    assert client.delete(f"/api/v1/pins/{made.json()['id']}").status_code == 204
    assert client.delete("/api/v1/pins/99").status_code == 404
    assert client.post("/api/v1/pins", json={**body, "ended": 0.0}).status_code == 422
    assert client.post("/api/v1/pins", json={**body, "engine_id": None}).status_code == 201


def test_a_pin_of_an_unknown_engine_is_refused(client, send, get):
    send(3, engines=("e0",))
    body = {"engine_id": "nosuch", "started": 1.0, "ended": 2.0, "reason": "incident"}
    refused = client.post("/api/v1/pins", json=body)
    assert refused.status_code == 404
    assert refused.json()["detail"] == client.get("/api/v1/engines/nosuch/gaps").json()["detail"]
    assert get("/pins") == []


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/load?engine=nobody", 404),
        ("/load?engine=e0&start=5&end=5", 422),
        ("/load?engine=e0&start=nan&end=5", 422),
        ("/load?engine=e0&start=0&end=99999999", 422),
        ("/load?engine=e0&start=100&end=200", 404),
        ("/load?engine=e0&format=xml", 422),
        (f"/engines/e0/experts?layer=2&start={BASE}&end={BASE + 60}", 422),
        ("/engines/e0/layers?column=nope", 422),
        ("/engines/e0/layers?cursor=x", 422),
        ("/engines/e0/layers?limit=0", 422),
        ("/engines/e0/latency?kind=ttft&q=2", 422),
        ("/engines/e0/latency", 422),
        ("/engines/e0/overflow?start=1&end=2", 404),
        ("/engines/e0/latency?kind=ttft&start=1&end=2", 404),
        ("/engines/e0/experts?start=1&end=2", 404),
        ("/load?engine=e0&start=2026-11-29T12:00", 422),
        ("/engines/e0/gaps?end=yesterday", 422),
        ("/engines/nobody/gaps", 404),
        ("/engines/nobody/bias-snapshots", 404),
        ("/engines/nobody/charts", 404),
        ("/decisions?before=nan", 422),
        ("/actions?before=inf", 422),
    ],
)
def test_a_bad_question_is_a_clear_error(client, send, path, status):
    send(3, engines=("e0",))
    response = client.get(f"/api/v1{path}")
    assert response.status_code == status
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json()["detail"]


def test_times_may_be_iso_8601_with_an_offset(get, send, client):
    send(30)
    span = {"start": "2023-11-14T22:00:00Z", "end": "2023-11-15T00:00:30+02:00"}
    assert datetime.fromisoformat(span["start"]).timestamp() == BASE
    seconds = {"start": BASE, "end": BASE + 30}
    for path in ("/engines/e0/experts", "/engines/e0/overflow", "/engines/e0/layers"):
        assert get(path, **span) == get(path, **seconds)
    naive = client.get("/api/v1/load", params={**span, "end": "2023-11-14T22:00:30"})
    assert naive.status_code == 422
    assert "add Z for UTC" in naive.json()["detail"]
    assert naive.json()["field"] == "end"
    body = {"started": span["start"], "ended": span["end"], "reason": "incident"}
    assert client.post("/api/v1/pins", json=body).status_code == 201
    assert [(pin["started"], pin["ended"]) for pin in get("/pins")] == [(BASE, BASE + 30)]


@pytest.mark.parametrize("name", ["q", "under"])
@pytest.mark.parametrize("value", ["-1", "nan", "inf", "-inf"])
def test_a_number_that_is_none_is_named_with_its_bound(client, send, name, value):
    send(3, engines=("e0",))
    response = client.get(f"/api/v1/engines/e0/latency?kind=ttft&{name}={value}")
    assert response.status_code == 422
    said = response.json()
    assert said["field"] == name
    assert float(value) == pytest.approx(float(str(said["value"]).strip("[']")), nan_ok=True)
    assert said["bound"] is not None


def test_every_route_is_described(client):
    paths = client.get("/api/openapi.json").json()["paths"]
    for path, methods in paths.items():
        for method, route in methods.items():
            assert route.get("description") or route.get("summary"), f"{method} {path}"
    assert "/api/v1/load" in paths
