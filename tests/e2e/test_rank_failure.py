"""A rank dies or is stopped: the engine says which, takes no more requests, and ends.

How long the watchdog waits is a setting, and counted from the rank's last beat: the time that a
loaded machine takes on top is not held against it here.
"""

import os
import re
import signal
from pathlib import Path

import httpx
import pytest

from engine.server.settings import EngineSettings
from tests.support.engine_process import EngineProcess, engine_process, is_running
from tests.support.polling import until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]
UNREADY_SECONDS = 5.0
HANDLING_SECONDS = 1.0
GONE = "no answer"


@pytest.mark.parametrize(
    ("number", "how"),
    [
        (signal.SIGKILL, r"was killed by signal 9"),
        (signal.SIGSTOP, r"has not answered for [\d.]+ s"),
    ],
    ids=["SIGKILL", "SIGSTOP"],
)
def test_a_failed_rank_ends_the_engine_with_its_name_and_leaves_no_process(
    tmp_path: Path, number: signal.Signals, how: str
):
    with engine_process(tmp_path) as engine:
        assert engine.client.get("/readyz").status_code == 200
        processes, (_, last_rank) = engine.everyone(), engine.ranks()
        os.kill(last_rank, number)
        reason = until(lambda: _unready(engine), "the engine became unready", every=0.02)
        _, errors = engine.process.communicate(timeout=60)
        assert engine.process.returncode == 1
        said = errors.strip().splitlines()[-1]
        found = re.fullmatch(rf"Error: engine engine-0 ends: (rank 1 {how}.*)", said)
        assert found, errors
        assert reason in {found[1], GONE}
        until(lambda: not any(map(is_running, processes)), "every process is gone")
        with pytest.raises(httpx.TransportError):
            engine.client.get("/healthz")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_of_the_whole_process_group_is_one_sentence_and_no_failure(
    tmp_path: Path, number: signal.Signals
):
    with engine_process(tmp_path) as engine:
        processes = engine.everyone()
        os.killpg(engine.process.pid, number)
        said, errors = engine.process.communicate(timeout=60)
        assert said.strip() == "engine engine-0 was asked to stop, and has stopped in order"
        assert errors == ""
        assert engine.process.returncode == 0
        until(lambda: not any(map(is_running, processes)), "every process is gone")


def test_the_watchdog_leaves_time_to_turn_unready_within_five_seconds():
    assert EngineSettings().watchdog_seconds <= UNREADY_SECONDS - HANDLING_SECONDS


def _unready(engine: EngineProcess) -> str | None:
    """Why it takes no requests; it says so for a second, which a busy machine may miss."""
    try:
        answer = engine.client.get("/readyz")
    except httpx.TransportError:
        return GONE
    return None if answer.status_code == 200 else str(answer.json()["detail"])
