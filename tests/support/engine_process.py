"""`trimtab engine` as a process of its own on a tiny checkpoint: up in seconds, real ranks."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from engine.server.tokens import Role, create_token
from tests.support.tiny_checkpoint import write_tiny_checkpoint

ROOT = Path(__file__).parents[2]


@dataclass
class EngineProcess:
    """A running engine and an administrator's client."""

    process: "subprocess.Popen[str]"
    client: httpx.Client

    def everyone(self) -> list[int]:
        """Process ids of the engine and of all that it has started."""
        return [self.process.pid, *_descendants(self.process.pid)]

    def ranks(self) -> list[int]:
        """Process ids of the ranks, by rank."""
        return [pid for pid in self.everyone() if b"spawn_main" in _command(pid)]


@contextmanager
def engine_process(folder: Path, *arguments: str) -> Iterator[EngineProcess]:
    """An engine with two ranks in `folder`; killed at the end if it still runs."""
    write_tiny_checkpoint(folder / "model")
    tokens = folder / "tokens.json"
    secret = create_token(tokens, name="t", role=Role.ADMIN)
    process = subprocess.Popen(
        [sys.executable, "-m", "trimtab", "engine", "--port", "0", "--state-dir", "state",
         "--checkpoint", "model", "--context-tokens", "256", "--kv-blocks", "64",
         "--token-file", str(tokens), *arguments],
        cwd=folder, env=os.environ | {"PYTHONPATH": str(ROOT)}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        found = re.search(r"http://\S+", line)
        assert found, line + (process.stderr.read() if process.stderr else "")
        headers = {"Authorization": f"Bearer {secret}"}
        with httpx.Client(base_url=found[0], headers=headers, trust_env=False) as client:
            yield EngineProcess(process, client)
    finally:
        process.kill()
        process.communicate()


def is_running(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def _descendants(pid: int) -> list[int]:
    children = [
        int(child)
        for thread in Path(f"/proc/{pid}/task").iterdir()
        for child in (thread / "children").read_text().split()
    ]
    return sorted(children) + [below for child in children for below in _descendants(child)]


def _command(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()
