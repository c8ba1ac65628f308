"""Series over time: stored intervals, then what is not sealed yet, up to the newest frame."""

import pytest

from controlplane.history.upkeep import Upkeep
from tests.support.frames import START

BASE = START - START % 3600


def test_one_expert_over_time_with_a_cursor(client, send, get):
    total = send(180, engines=("e0",), every=2)["e0"]
    send(60, engines=("e0",), first=180, every=2)
    path = "/engines/e0/experts/1/3"
    whole = get(path, start=BASE, end=BASE + 120)
    assert whole["tier"] == 10
    first = get(path, start=BASE, end=BASE + 120, limit=5)
    assert len(first["points"]) == 5
    rest = get(path, start=first["cursor"], end=BASE + 120)
    assert first["points"] + rest["points"] == whole["points"]
    assert whole["cursor"] is None
    assert 0 < sum(point["assignments"] for point in whole["points"]) < total[:, 1, 3].sum()
    outside = client.get("/api/v1/engines/e0/experts/9/3", params={"start": BASE})
    assert outside.status_code == 422


def test_layers_over_time_with_columns_and_a_cursor(send, get):
    send(240, engines=("e0",), every=10)
    query = {"start": BASE, "end": BASE + 180, "column": ["assignments", "load_cv_ratio"]}
    whole = get("/engines/e0/layers", **query)
    assert whole["tier"] == 60
    assert whole["columns"] == ["layer", "t0", "assignments", "load_cv_ratio"]
    assert len(whole["rows"]) == 6
    rows, cursor = [], None
    while True:
        page = get("/engines/e0/layers", **query, limit=4,
                    **({"cursor": cursor} if cursor else {}))  # fmt: skip
        rows += page["rows"]
        cursor = page["cursor"]
        if cursor is None:
            break
    assert rows == whole["rows"]
    one = get("/engines/e0/layers", **query, layer=1)
    assert one["rows"] == [row for row in whole["rows"] if row[0] == 1]


def test_an_expert_is_told_up_to_the_newest_frame(get, send):
    total = send(95, engines=("e0",))["e0"]
    answer = get("/engines/e0/experts/1/3", start=BASE, end=BASE + 3600)
    assert answer["tier"] == 10
    assert [point["t0"] for point in answer["points"]] == [BASE + 10 * i for i in range(10)]
    assert sum(point["assignments"] for point in answer["points"]) == total[:, 1, 3].sum()
    assert answer["until"] == BASE + 95  # so the last interval is partial


def test_what_is_sealed_is_not_told_twice(get, send, app, clock):
    send(95, engines=("e0",))
    before = get("/engines/e0/experts/1/3", start=BASE, end=BASE + 3600)
    clock.advance(600)
    Upkeep(app.state.plane.history).seal()
    after = get("/engines/e0/experts/1/3", start=BASE, end=BASE + 3600)
    assert after["points"] == before["points"]
    assert after["until"] == BASE + 100


def test_layers_are_told_up_to_the_newest_frame(get, send):
    total = send(95, engines=("e0",))["e0"].sum(axis=(0, 2))
    query = {"start": BASE, "end": BASE + 3600, "column": ["assignments", "hot_expert"]}
    answer = get("/engines/e0/layers", **query)
    assert answer["until"] == BASE + 95
    assert [row[:2] for row in answer["rows"]] == [
        [layer, BASE + t0] for layer in (0, 1) for t0 in (0, 60)
    ]
    for layer in (0, 1):
        rows = [row for row in answer["rows"] if row[0] == layer]
        assert sum(row[2] for row in rows) == total[layer]
    second = get("/engines/e0/layers", **query, limit=3, cursor=f"0:{int(BASE)}")
    assert second["rows"] == answer["rows"][1:]


def test_an_hour_that_is_not_over_is_told_of_its_minutes_and_frames(get, send):
    total = send(300, engines=("e0",), every=10)["e0"].sum(axis=(0, 2))
    answer = get("/engines/e0/layers", start=BASE, end=BASE + 7200, tier=3600, column="assignments")
    assert answer["rows"] == [[0, BASE, total[0]], [1, BASE, total[1]]]
    assert answer["until"] == BASE + 300


def test_a_span_without_frames_is_covered_by_nothing(get, send):
    send(30, engines=("e0",))
    for path in ("/engines/e0/layers", "/engines/e0/experts/1/3"):
        answer = get(path, start=BASE - 7200, end=BASE - 3600)
        assert (answer.get("rows") or answer.get("points") or []) == []
        assert answer["until"] is None


@pytest.mark.parametrize(
    "path",
    [
        "/layers?layer=400",
        "/layers?layer=-1",
        "/layers?layer=1&layer=2",
        "/experts/99/0",
        "/experts/0/99",
        "/experts/-1/0",
    ],
)
@pytest.mark.parametrize("start", [BASE, BASE - 7200], ids=["with frames", "without"])
def test_layers_and_experts_that_the_model_has_not_are_refused(client, send, path, start):
    send(90, engines=("e0",))
    join = "&" if "?" in path else "?"
    span = f"{join}start={start}&end={start + 3600}"
    assert client.get(f"/api/v1/engines/e0{path}{span}").status_code == 422
