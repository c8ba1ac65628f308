"""The control plane is killed while the engine serves and an action runs, and comes back.

The engine here keeps only a few frames, so that an absence of seconds loses some.
"""

import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

import pytest

from controlplane.clock import SystemClock
from controlplane.db.database import open_database
from controlplane.history.frames import Gap
from controlplane.history.history import History
from controlplane.settings import HistorySettings
from tests.support.polling import until
from tests.support.running_site import Load, RunningSite, running_site
from trimtab.demo.site import ENGINE_ID

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]
KEPT_FRAMES = 6
LOST_FRAMES = 5
ENVIRONMENT = {
    "TRIMTAB_ENGINE_FRAME_BUFFER": str(KEPT_FRAMES),
    "TRIMTAB_ENGINE_FRAME_SECONDS": "0.5",
    "TRIMTAB_ENGINE_WATCHDOG_SECONDS": "60",
}
REQUESTS_WHILE_AWAY = 10


@dataclass
class Absence:
    """What was seen: the action in flight, the load, and sequences around the kill."""

    running: RunningSite
    load: Load
    action_id: str
    phase_at_kill: str
    newest_at_kill: int
    served_while_away: int


@pytest.fixture(scope="module")
def absence(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Absence]:
    """The control plane is back, and has all the frames that the engine still had."""
    with running_site(tmp_path_factory.mktemp("site"), ENVIRONMENT) as running:
        running.wait_until_ready()
        running.govern()
        with Load(running.site).running() as load:
            until(lambda: load.served > 5, "requests are served", show=lambda: load.errors[-3:])
            running.mark_good()
            running.drift()
            action_id = running.roll_bias_back()
            phase = until(lambda: _phase_after_applying(running, action_id), "it was applied")
            before = load.served
            running.kill_control()
            newest = _newest(running)
            until(lambda: _dropped(running) >= LOST_FRAMES, "the engine's buffer overflowed")
            until(lambda: load.served >= before + REQUESTS_WHILE_AWAY, "requests are served")
            served = load.served - before
            running.start_control()
            running.wait_until_ready()
            until(lambda: _newest(running) > newest + KEPT_FRAMES, "frames are stored again")
            yield Absence(running, load, action_id, phase, newest, served)


def test_requests_are_served_while_it_is_away(absence: Absence):
    assert absence.served_while_away >= REQUESTS_WHILE_AWAY
    assert absence.load.errors == []
    assert absence.running.engine.process.poll() is None


def test_frames_that_the_engine_kept_are_accepted_and_lost_ones_are_gaps(absence: Absence):
    history = _history(absence.running)
    with closing(history.database):
        frames = history.frames(ENGINE_ID, 0.0, 1e12)
        gaps = history.gaps(ENGINE_ID, 0.0, 1e12)
    stored = [frame.header.sequence for frame in frames]
    missing = [sequence for gap in gaps for sequence in _sequences(gap)]
    assert sorted(stored + missing) == list(range(max(stored) + 1))
    # The oldest that were not stored yet went first, and nothing between them came through.
    assert missing == list(range(absence.newest_at_kill + 1, missing[-1] + 1))
    hour_ago = time.time() - 3600
    answer = absence.running.control_get(f"/engines/{ENGINE_ID}/gaps", start=hour_ago)
    assert answer["frames_missing"] == len(missing)


def test_the_action_that_ran_goes_on_and_ends(absence: Absence):
    running, action_id = absence.running, absence.action_id
    action = until(
        lambda: _ended(running, action_id), "the action ended",
        show=lambda: running.action(action_id),
    )  # fmt: skip
    assert action["phase"] in {"succeeded", "escalated"}
    assert len(running.generations_of(action_id)) == 1
    biases = running.biases()
    assert biases.live_hash == biases.last_known_good
    assert running.control_get("/audit/verify")["holds"]


def test_it_leads_again_with_a_newer_epoch(absence: Absence):
    leader = absence.running.control_get("/leader")
    assert leader["leads"]
    assert leader["epoch"] >= 2


def _phase_after_applying(running: RunningSite, action_id: str) -> str | None:
    action = running.action(action_id)
    assert action["phase"] != "failed", action["note"]
    return None if action["phase"] in {"proposed", "applying"} else action["phase"]


def _ended(running: RunningSite, action_id: str) -> dict[str, object] | None:
    action = running.action(action_id)
    return None if action["phase"] in {"settling", "verifying"} else action


def _dropped(running: RunningSite) -> int:
    """Frames that the engine says it has lost; a stored one that was not acknowledged counts."""
    name = "moe_engine_frames_total{"
    lines = running.engine_api.get("/metrics").text.splitlines()
    (line,) = (x for x in lines if x.startswith(name) and 'outcome="dropped"' in x)
    return int(float(line.rpartition(" ")[2]))


def _newest(running: RunningSite) -> int:
    history = _history(running)
    with closing(history.database):
        frame = history.newest(ENGINE_ID)
    assert frame is not None
    return frame.header.sequence


def _history(running: RunningSite) -> History:
    database = open_database(running.site.database_url)
    return History(database, HistorySettings(), SystemClock())


def _sequences(gap: Gap) -> range:
    return range(gap.first_sequence, gap.last_sequence + 1)
