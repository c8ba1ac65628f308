"""A control plane process, and a contract engine that sends it frames; real, on loopback."""

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import httpx

from contract.headers import CONTENT_TYPE_PROTOBUF, LOGS_PATH
from controlplane.history.history import History
from controlplane.history.ring import ReceivedFrame
from tests.support.contract_engine import ContractEngine
from tests.support.contract_engine_app import contract_engine_app
from tests.support.frames import export_request
from tests.support.loopback_server import served
from tests.support.plant import Plant

ADMIN = "tt_admin-secret-for-tests"
TELEMETRY = "tt_telemetry-secret-for-tests"
SETTINGS = """
database_url = "sqlite:///{folder}/trimtab.db"
port = {port}
[auth]
admin_token = "{admin}"
[governor]
policy = "{policy}"
[[engines]]
id = "engine-0"
url = "{engine}"
admin_token = "engine-secret"
telemetry_token = "{telemetry}"
group = "group-0"
"""


@dataclass
class Wire:
    """Takes the place of a plant's history: its frames go over HTTP."""

    url: str
    answers: list[int] = field(default_factory=list)

    def append(self, frames: list[ReceivedFrame]) -> None:
        body = export_request([frame.data for frame in frames]).SerializeToString()
        headers = {
            "Authorization": f"Bearer {TELEMETRY}", "Content-Type": CONTENT_TYPE_PROTOBUF,
        }  # fmt: skip
        answer = httpx.post(self.url + LOGS_PATH, content=body, headers=headers, trust_env=False)
        self.answers.append(answer.status_code)


@dataclass
class RunningPlane:
    """Both, and how to talk to them."""

    url: str
    engine: ContractEngine
    plant: Plant
    process: subprocess.Popen[bytes]

    def api(self, method: str, path: str, **more: Any) -> Any:
        headers = {"Authorization": f"Bearer {ADMIN}"}
        answer = httpx.request(
            method, self.url + path, headers=headers, trust_env=False, timeout=10, **more
        )
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json()

    def login_link(self, role: str = "operator", name: str = "anna") -> str:
        made = self.api("POST", "/api/v1/login-links", json={"name": name, "role": role})
        return self.url + made["path"]

    def wait(self, seconds: float, what: str, ready: Any) -> Any:
        """What `ready` gives, once it gives something true."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            try:
                if found := ready():
                    return found
            except (httpx.HTTPError, AssertionError):
                pass
            time.sleep(0.2)
        raise AssertionError(f"{what} did not happen within {seconds} s")


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@contextmanager
def running_plane(folder: Path, *, policy: str = "fast", warm: int = 60) -> Iterator[RunningPlane]:
    """Start both; `warm` seconds of frames are in the history when the block begins."""
    engine = ContractEngine(now=time.time)
    url = f"http://127.0.0.1:{free_port()}"
    with served(contract_engine_app(engine)) as engine_url:
        config = folder / "trimtab.toml"
        config.write_text(
            SETTINGS.format(
                folder=folder, port=url.rpartition(":")[2], admin=ADMIN, policy=policy,
                engine=engine_url, telemetry=TELEMETRY,
            )
        )  # fmt: skip
        process = subprocess.Popen(
            [sys.executable, "-m", "trimtab", "serve", "--config", str(config)],
            cwd=Path(__file__).parents[2],
        )
        wire = Wire(url)
        running = RunningPlane(url, engine, Plant(engine, cast("History", wire)), process)
        stop = threading.Event()
        sender = threading.Thread(target=_send, args=(running, stop), daemon=True)
        try:
            running.wait(
                120, "readiness", lambda: httpx.get(f"{url}/readyz", trust_env=False).is_success
            )
            running.plant.emit(time.time(), warm)
            sender.start()
            yield running
        finally:
            stop.set()
            if sender.is_alive():
                sender.join(10)
            process.terminate()
            process.wait(20)


def _send(running: RunningPlane, stop: threading.Event) -> None:
    """A frame a second, as an engine does."""
    while not stop.wait(1.0):
        running.plant.emit(time.time(), 1)
