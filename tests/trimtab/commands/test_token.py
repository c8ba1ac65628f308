"""`trimtab token` before anything else has run, and the link it prints."""

import getpass
from pathlib import Path

import pytest
from click.testing import CliRunner

from controlplane.audit import log
from controlplane.db.database import open_database
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


def test_the_shell_leaves_its_user_in_the_audit_log() -> None:
    secret = _run("create", "--role", "viewer", "--name", "anna").strip()
    _run("revoke", "anna")
    link = _run("login", "--name", "bob").strip()
    database = open_database("sqlite:///var/trimtab.db")
    with database.read() as session:
        events = [log.as_dict(event) for event in log.newest(session)][::-1]
    database.close()
    assert [(e["actor"], e["kind"], e["subject"]) for e in events] == [
        (f"cli:{getpass.getuser()}", "token.created", "anna"),
        (f"cli:{getpass.getuser()}", "token.revoked", "anna"),
        (f"cli:{getpass.getuser()}", "login.link_created", "bob"),
    ]
    assert secret not in str(events)
    assert link.partition("=")[2] not in str(events)


@pytest.mark.parametrize("more", [[], ["--engine-tokens", "engine-tokens.json"]])
def test_a_name_that_cannot_be_used_is_one_sentence_and_exit_2(more: list[str]) -> None:
    arguments = ["token", "create", "--role", "viewer", "--name", "a/b", *more]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    assert "name 'a/b' is not usable" in result.output
    assert "letter or digit first" in result.output


def test_a_role_at_an_engine_says_which_option_it_needs() -> None:
    arguments = ["token", "create", "--role", "inference", "--name", "q"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    assert "--engine-tokens" in result.output
