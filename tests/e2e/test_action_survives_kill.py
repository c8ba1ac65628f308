"""kill -9 of the control plane at moments spread over a bias rollback: it is carried out once.

Every point between two writes is covered in-process by `tests/controlplane/actuator/test_crash.py`;
this is the same with a real process, a real engine, and whatever moment it happens to be.
"""

import random
import threading
from pathlib import Path

import pytest

from tests.support.polling import until
from tests.support.running_site import Load, RunningSite, running_site

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(1800)]
ROUNDS = 4
LATEST_SECONDS = 2.5
"""Within this the action goes from proposed to settling: a tick of the governor is one second."""


def test_a_rollback_is_carried_out_once_wherever_the_control_plane_is_killed(tmp_path: Path):
    randomness = random.Random(20)
    with running_site(tmp_path, {"TRIMTAB_ENGINE_WATCHDOG_SECONDS": "60"}) as running:
        running.wait_until_ready()
        running.govern()
        with Load(running.site).running() as load:
            until(lambda: load.served > 5, "requests are served", show=lambda: load.errors[-3:])
            running.mark_good()
            for number in range(ROUNDS):
                part = LATEST_SECONDS / ROUNDS
                _round(running, (number + randomness.random()) * part)
        assert load.errors == []
        assert running.control_get("/audit/verify")["holds"]


def _round(running: RunningSite, moment: float) -> None:
    good = running.biases().last_known_good
    running.drift()
    generation = running.config().document.generation
    action_id = running.roll_bias_back()
    threading.Event().wait(moment)
    running.kill_control()
    minted = running.generations_of(action_id)
    running.start_control()
    running.wait_until_ready()
    action = until(
        lambda: _ended(running, action_id), f"the action killed after {moment:.2f} s ended",
        show=lambda: running.action(action_id),
    )  # fmt: skip
    assert action["phase"] in {"succeeded", "escalated"}, action
    documents = running.generations_of(action_id)
    assert len(documents) == 1
    assert minted in ([], documents)
    assert documents[0].config.router_bias == good
    assert running.config().document.generation == generation + 1
    assert running.biases().live_hash == good


def _ended(running: RunningSite, action_id: str) -> dict[str, object] | None:
    action = running.action(action_id)
    going = {"proposed", "applying", "settling", "verifying", "reverting"}
    return None if action["phase"] in going else action
