"""`trimtab engine`: its bad input, and one process with real ranks from start to end."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

from contract.admin import ConfigState
from engine.server.config_store import ConfigStore
from engine.server.database import Database
from engine.server.tokens import Role, create_token
from tests.support.tiny_checkpoint import write_tiny_checkpoint
from trimtab.cli import main

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--ranks", "0"], "setting ranks: Input should be greater than or equal to 1"),
        (["--host", "0.0.0.0"], "is not loopback"),
        (["--set", "chunk_size"], "is not KNOB=VALUE"),
        (["--set", "chunk=3"], "setting runtime.chunk: Extra inputs are not permitted"),
        (["--set", "capacity_factor=1.3"], "'1.3' is not a rung"),
        (["--token-file", "nowhere.json"], "token file nowhere.json cannot be read"),
        (["--fault", "meteor"], "unknown fault 'meteor'"),
        (["--checkpoint", "nowhere"], "nowhere/tokenizer.json is absent"),
        (["--config", "nowhere.toml"], "nowhere.toml cannot be read"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], sentence: str
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, ["engine", *arguments])
    assert result.exit_code == 2
    assert sentence in result.output
    assert "Traceback" not in result.output


def test_help_has_an_example() -> None:
    result = CliRunner().invoke(main, ["engine", "--help"])
    assert result.exit_code == 0
    assert "Example: trimtab engine" in result.output


@dataclass
class Started:
    process: "subprocess.Popen[str]"
    client: httpx.Client

    def ranks(self) -> list[int]:
        """Process ids of the ranks."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        found = [
            int(child)
            for thread in Path(f"/proc/{self.process.pid}/task").iterdir()
            for child in (thread / children.name).read_text().split()
        ]
        return [pid for pid in found if "spawn_main" in Path(f"/proc/{pid}/cmdline").read_text()]


@contextmanager
def engine(folder: Path) -> Iterator[Started]:
    tokens = folder / "tokens.json"
    secret = create_token(tokens, name="t", role=Role.ADMIN)
    process = subprocess.Popen(
        [sys.executable, "-m", "trimtab", "engine", "--port", "0", "--state-dir", "state",
         "--checkpoint", "model", "--context-tokens", "256", "--kv-blocks", "64",
         "--token-file", str(tokens)],
        cwd=folder, env=os.environ | {"PYTHONPATH": str(ROOT)}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        found = re.search(r"http://\S+", line)
        assert found, line + (process.stderr.read() if process.stderr else "")
        headers = {"Authorization": f"Bearer {secret}"}
        with httpx.Client(base_url=found[0], headers=headers, trust_env=False) as client:
            yield Started(process, client)
    finally:
        process.kill()
        process.communicate()


@pytest.mark.e2e
def test_a_real_engine_serves_commits_and_ends_naming_the_rank_that_died(tmp_path: Path) -> None:
    write_tiny_checkpoint(tmp_path / "model")
    with engine(tmp_path) as started:
        client = started.client
        assert client.get("/readyz").status_code == 200
        (model,) = client.get("/v1/models").json()["data"]
        body = {"model": model["id"], "prompt": "def f(", "max_tokens": 8, "ignore_eos": True}
        answer = client.post("/v1/completions", json=body)
        assert answer.json()["usage"]["completion_tokens"] == 8
        state = ConfigState.model_validate_json(client.get("/admin/v1/config").content)
        config = state.document.config.model_dump(mode="json") | {"capacity_factor": "2"}
        changed = client.put(
            "/admin/v1/config",
            json={"config": config, "cause": {"kind": "operator"}},
            headers={"If-Match": state.etag, "X-Fencing-Epoch": "0", "Idempotency-Key": "k"},
        ).json()
        assert [ack["generation"] for ack in changed["ranks"]] == [2, 2]
        assert {ack["step"] for ack in changed["ranks"]} == {changed["effective_at_step"]}
        deadline = time.monotonic() + 20  # the first frame takes its interval
        while "moe_assignments_total" not in client.get("/metrics").text:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        os.kill(started.ranks()[-1], signal.SIGKILL)
        _, errors = started.process.communicate(timeout=30)
        assert started.process.returncode == 1
        last = errors.strip().splitlines()[-1]
        assert re.fullmatch(r"Error: engine engine-0 ends: rank \d .*", last), errors
    database = Database(tmp_path / "state" / "engine.db")
    stored = ConfigStore(database).current
    database.close()
    assert (stored.generation, stored.config.capacity_factor) == (2, "2")
