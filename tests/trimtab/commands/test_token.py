"""`trimtab token` before anything else has run, and the link it prints."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from trimtab.cli import main


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def _run(*arguments: str) -> str:
    result = CliRunner().invoke(main, ["token", *arguments])
    assert result.exit_code == 0, result.output
    return result.output


def test_the_first_command_of_an_installation_may_make_a_token() -> None:
    secret = _run("create", "--role", "engine", "--engine", "engine-0", "--name", "engine-0")
    assert secret.startswith("tt_")
    assert _run("list") == "engine-0\tengine engine=engine-0\tvalid\n"


def test_a_login_link_of_a_listener_on_every_address_can_be_opened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TRIMTAB_HOST", "0.0.0.0")
    monkeypatch.setenv("TRIMTAB_INSECURE", "true")
    assert _run("login").startswith("http://127.0.0.1:8700/login?link=")
