"""A rank dies or is stopped: the engine says which, takes no more requests, and ends."""

import os
import re
import signal
import time
from pathlib import Path

import httpx
import pytest

from tests.support.engine_process import EngineProcess, engine_process, is_running
from tests.support.polling import until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]
UNREADY_SECONDS = 5.0


@pytest.mark.parametrize(
    ("number", "how"),
    [
        (signal.SIGKILL, r"was killed by signal 9"),
        (signal.SIGSTOP, r"has not answered for (?P<silent>[\d.]+) s"),
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
        sent = time.monotonic()
        reason = until(lambda: _unready(engine), "the engine became unready", every=0.02)
        took = time.monotonic() - sent
        _, errors = engine.process.communicate(timeout=60)
        assert engine.process.returncode == 1
        said = errors.strip().splitlines()[-1]
        assert said == f"Error: engine engine-0 ends: {reason}"
        found = re.search(rf"rank 1 {how}", said)
        assert found, errors
        assert float(found.groupdict().get("silent", 0)) <= UNREADY_SECONDS
        assert took <= UNREADY_SECONDS
        until(lambda: not any(map(is_running, processes)), "every process is gone")
        with pytest.raises(httpx.TransportError):
            engine.client.get("/healthz")


def _unready(engine: EngineProcess) -> str | None:
    answer = engine.client.get("/readyz")
    return None if answer.status_code == 200 else str(answer.json()["detail"])
