"""kill -9 of a real control plane in the middle of an action; a new process finishes it."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from contract.headers import CONTENT_TYPE_PROTOBUF, LOGS_PATH
from tests.support.contract_engine import ContractEngine
from tests.support.contract_engine_app import contract_engine_app
from tests.support.frames import export_body
from tests.support.loopback_server import served
from tests.support.plant import Plant

ROOT = Path(__file__).parents[2]
ADMIN, TELEMETRY = "a" * 40, "t" * 40
SETTINGS = """
database_url = "sqlite:///{folder}/trimtab.db"
port = {port}
[auth]
admin_token = "{admin}"
[governor]
policy = "fast"
[[engines]]
id = "engine-0"
url = "{engine}"
admin_token = "{engine_token}"
telemetry_token = "{telemetry}"
group = "group-0"
"""


class ControlPlane:
    """`trimtab serve` as a process of its own."""

    def __init__(self, config: Path, port: int) -> None:
        self._config = config
        self.process: subprocess.Popen[bytes] | None = None
        self.client = httpx.Client(
            base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=5,
            headers={"Authorization": f"Bearer {ADMIN}"},
        )  # fmt: skip

    def start(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "trimtab", "serve", "--config", str(self._config)], cwd=ROOT
        )
        until(self.answers, 60)

    def answers(self) -> bool:
        try:
            return self.client.get("/healthz").is_success
        except httpx.HTTPError:
            return False

    def kill(self) -> None:
        if self.process is not None and self.process.poll() is None:
            os.kill(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def action(self, action_id: str) -> dict:
        return self.client.get(f"/api/v1/actions/{action_id}").json()["action"]


def until(holds: Callable[[], object], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(0.05)


@contextmanager
def sending(plant: Plant, plane: ControlPlane) -> Iterator[None]:
    """A frame a second to the control plane, whether it lives or not."""
    stop = threading.Event()
    client = httpx.Client(base_url=plane.client.base_url, trust_env=False, timeout=2)
    headers = {"Authorization": f"Bearer {TELEMETRY}", "Content-Type": CONTENT_TYPE_PROTOBUF}

    def run() -> None:
        while not stop.wait(1.0):
            body = export_body(plant.frame(time.time() - 1.0))
            try:
                client.post(LOGS_PATH, content=body, headers=headers)
            except httpx.HTTPError:
                continue

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        client.close()


@pytest.fixture
def engine() -> Iterator[tuple[ContractEngine, str]]:
    made = ContractEngine(now=time.time)
    with served(contract_engine_app(made)) as url:
        yield made, url


@pytest.fixture
def plane(tmp_path, engine) -> Iterator[ControlPlane]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = tmp_path / "trimtab.toml"
    config.write_text(
        SETTINGS.format(
            folder=tmp_path, port=port, admin=ADMIN, telemetry=TELEMETRY, engine=engine[1],
            engine_token=engine[0].token,
        )
    )  # fmt: skip
    made = ControlPlane(config, port)
    yield made
    made.kill()
    made.client.close()


@pytest.mark.e2e
def test_an_action_whose_governor_was_killed_mid_request_is_finished_once(plane, engine):
    made, _ = engine
    good, _bad = made.last_known_good, made.drift()
    made.trouble.delay_seconds = 0.5
    plane.start()
    with sending(Plant(made, history=None), plane):
        answer = plane.client.post(
            "/api/v1/engines/engine-0/router-bias/rollback", headers={"If-Match": made.etag},
            json={"bias_hash": good, "reason": "drill"},
        )  # fmt: skip
        assert answer.status_code == 201, answer.text
        action_id = answer.json()["action_id"]
        until(lambda: any(path.endswith("rollback") for _, path, _ in made.requests), 30)
        plane.kill()
        made.trouble.delay_seconds = 0.0
        plane.start()
        until(lambda: plane.action(action_id)["phase"] == "succeeded", 90)
    assert made.live_bias == good
    assert len(made.mutations) == 1
    assert plane.client.get("/api/v1/audit/verify").json()["holds"]
    assert plane.client.get("/api/v1/leader").json()["epoch"] == 2
