"""Answers about spans of which retention has taken the finer sums."""

import pytest
from sqlalchemy import delete

from controlplane.history.models import LoadRollup
from controlplane.history.upkeep import Upkeep
from tests.support.frames import START

BASE = START - START % 3600
DAY = 86_400


def _get(client, path, **params):
    response = client.get(f"/api/v1{path}", params=params)
    assert response.status_code == 200, response.text
    return response.json()


@pytest.fixture
def retained(app, clock):
    def retained(days: float) -> None:
        """So many days later, all that is due was done."""
        upkeep = Upkeep(app.state.plane.history)
        clock.advance(days * DAY)
        for work in (upkeep.seal, upkeep.roll_hours, upkeep.retain):
            work()

    return retained


@pytest.mark.parametrize(
    ("days", "seconds", "covered", "tier"),
    [(0.1, 60, (0, 60), "1"), (2, 30, (0, 60), "60"), (15, 1800, (0, 3600), "3600"),
     (15, 60, (0, 3600), "3600")],
)  # fmt: skip
def test_the_answer_is_as_coarse_as_what_is_kept_and_says_so(
    client, send, retained, days, seconds, covered, tier
):
    send(3600, engines=("e0",), every=60)
    retained(days)
    answer = _get(client, "/load", engine="e0", start=BASE, end=BASE + seconds)
    assert list(answer["tiers"]) == [tier]
    assert (answer["start"] - BASE, answer["end"] - BASE) == covered


def test_what_is_pinned_is_answered_as_finely_as_before(client, send, retained, app):
    send(3600, engines=("e0",), every=60)
    app.state.plane.history.pin("e0", BASE, BASE + 300, reason="incident", actor="anna")
    retained(15)
    answer = _get(client, "/load", engine="e0", start=BASE + 60, end=BASE + 180)
    assert answer["tiers"] == {"1": 2}
    other = _get(client, "/load", engine="e0", start=BASE + 240, end=BASE + 360)
    assert other["tiers"] == {"3600": 1}


def test_minutes_that_were_kept_less_long_than_now_are_not_missed(client, send, retained, app):
    send(3600, engines=("e0",), every=60)
    retained(0.1)
    with app.state.plane.database.write() as session:
        session.execute(delete(LoadRollup).where(LoadRollup.tier < 3600))
    retained(2)
    answer = _get(client, "/load", engine="e0", start=BASE, end=BASE + 60)
    assert answer["tiers"] == {"3600": 1}
