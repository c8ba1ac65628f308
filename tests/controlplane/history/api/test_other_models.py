"""A model that changes under an engine's id, and engines whose models have different shapes."""

import numpy as np
import pytest

from tests.support.frames import START, make_frame, received

BASE = START - START % 3600


def _get(client, path, **params):
    response = client.get(f"/api/v1{path}", params=params)
    assert response.status_code == 200, response.text
    return response.json()


@pytest.fixture
def settled(app, clock):
    def settled() -> None:
        """All minutes are sealed."""
        clock.advance(70)
        app.state.plane.upkeep.seal()

    return settled


def _change(send) -> np.ndarray:
    """Two minutes of one model, then two of another; gives the loads of the second."""
    send(120, engines=("e0",), every=10)
    return send(120, engines=("e0",), first=120, every=10, layers=3, boot_id="boot-b")["e0"]


def test_the_load_says_how_many_frames_are_of_another_model(client, send):
    totals = _change(send)
    for end in (BASE + 240, BASE + 400):  # of frames, and of stored minutes
        answer = _get(client, "/load", engine="e0", start=BASE, end=end)
        assert answer["counts"] == totals.sum(axis=0).tolist()
        assert (answer["frames"], answer["left_out"]) == (12, 12)
    ranked = _get(client, "/engines/e0/experts", start=BASE, end=BASE + 240)
    assert (ranked["frames"], ranked["left_out"]) == (12, 12)


def test_a_rollup_that_holds_both_models_says_so(client, send):
    send(30, engines=("e0",), every=10)
    send(30, engines=("e0",), first=30, every=10, layers=3, boot_id="boot-b")
    answer = _get(client, "/load", engine="e0", start=BASE, end=BASE + 400)
    assert (answer["layers"], answer["frames"], answer["left_out"]) == (3, 3, 3)


def test_a_series_skips_intervals_of_another_model(client, send, settled):
    totals = _change(send)
    settled()
    span = {"start": BASE, "end": BASE + 240}
    series = _get(client, "/engines/e0/experts/2/7", **span)
    assert [point["t0"] - BASE for point in series["points"]] == list(range(120, 240, 10))
    assert sum(point["assignments"] for point in series["points"]) == totals[:, 2, 7].sum()
    first = _get(client, "/engines/e0/experts/2/7", **span, limit=5)
    assert len(first["points"]) == 5
    assert first["cursor"] == BASE + 170
    gone = client.get("/api/v1/engines/e0/experts/3/0", params=span)
    assert gone.status_code == 422


def test_the_series_of_a_span_before_the_change_is_of_the_old_model(client, send):
    _change(send)
    series = _get(client, "/engines/e0/experts/1/7", start=BASE, end=BASE + 60)
    assert len(series["points"]) == 6


def test_one_odd_engine_is_left_out_of_the_fleet_and_named(client, send, settled):
    totals = send(60, every=10)
    send(60, engines=("e7",), first=60, every=10, layers=3)
    settled()
    span = {"start": BASE, "end": BASE + 120}
    answer = _get(client, "/load", **span)
    assert (answer["engines"], answer["odd_engines"]) == (["e0", "e1"], ["e7"])
    assert answer["frames"] == 12
    assert answer["counts"] == sum(total.sum(axis=0) for total in totals.values()).tolist()


def test_an_engine_without_layers_spoils_nothing(app, client, send, settled):
    send(60, engines=("e0",), every=10)
    empty = make_frame(engine_id="e7", layers=0, experts=8, started=BASE + 1)
    app.state.plane.history.append([received(empty)])
    settled()
    answer = _get(client, "/load", start=BASE, end=BASE + 60)
    assert (answer["engines"], answer["odd_engines"]) == (["e0"], ["e7"])


def test_shapes_that_are_equally_frequent_are_not_chosen_from(client, send, settled):
    send(60, engines=("e0",), every=10)
    send(60, engines=("e7",), first=60, every=10, layers=3)
    settled()
    response = client.get("/api/v1/load", params={"start": BASE, "end": BASE + 120})
    assert response.status_code == 409
    assert "ask for one group" in response.json()["detail"]
