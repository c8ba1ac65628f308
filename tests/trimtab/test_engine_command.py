"""`trimtab engine`: its bad input, and one process with real ranks from start to end."""

import os
import re
import signal
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from contract.admin import ConfigState
from engine.server.config_store import ConfigStore
from engine.server.database import Database
from tests.support.engine_process import engine_process
from trimtab.cli import main


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--ranks", "0"], "setting ranks: it should be greater than or equal to 1, not "),
        (["--host", "0.0.0.0"], "is not loopback"),
        (["--set", "chunk_size"], "is not KNOB=VALUE"),
        (["--set", "chunk=3"], "setting runtime.chunk does not exist"),
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


@pytest.mark.e2e
def test_a_real_engine_serves_commits_and_ends_naming_the_rank_that_died(tmp_path: Path) -> None:
    with engine_process(tmp_path) as started:
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
