"""`trimtab serve` with settings that cannot work: one sentence and exit 2, nothing listens."""

import socket

import pytest
from click.testing import CliRunner

from trimtab.commands.serve import command


def _settings(folder, text: str):
    file = folder / "control.toml"
    file.write_text(text, "utf-8")
    return file


@pytest.mark.parametrize(
    ("name", "url"),
    [
        ("no database", "sqlite:///{folder}/other.db"),
        ("no folder", "sqlite:///{folder}/other.db/x.db"),
        ("nobody listens", "postgresql+psycopg://127.0.0.1:1/x?connect_timeout=2"),
    ],
)
def test_a_database_that_cannot_be_used_is_one_sentence(tmp_path, name, url):
    (tmp_path / "other.db").write_bytes(b"this was never a database file " * 40)
    file = _settings(tmp_path, f'database_url = "{url.format(folder=tmp_path)}"\n')
    result = CliRunner().invoke(command, ["--config", str(file), "--port", "0"])
    assert result.exit_code == 2, name
    assert result.output.startswith("Error: the database cannot be used: ")
    assert len(result.output.splitlines()) == 1


def test_tls_files_that_cannot_be_read_are_named(tmp_path):
    file = _settings(
        tmp_path,
        f'database_url = "sqlite:///{tmp_path}/x.db"\n'
        'tls_certificate = "none.pem"\ntls_key = "none.pem"\n',
    )
    result = CliRunner().invoke(command, ["--config", str(file), "--port", "0"])
    assert result.exit_code == 2
    assert "none.pem" in result.output


def test_a_port_that_is_taken_is_named_with_what_to_do(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        file = _settings(tmp_path, f'database_url = "sqlite:///{tmp_path}/x.db"\n')
        result = CliRunner().invoke(command, ["--config", str(file), "--port", str(port)])
    assert result.exit_code == 2
    assert f"127.0.0.1:{port}" in result.output
    assert "--port" in result.output


@pytest.mark.parametrize(
    ("written", "setting"),
    [
        ('policy = "nosuch"', "governor.policy"),
        (
            'alerts = { MoeBiasDrift = "", MoeOverflowHigh = "nosuch" }',
            "governor.alerts.MoeOverflowHigh",
        ),
    ],
)
def test_a_policy_that_does_not_exist_is_refused_by_its_setting(tmp_path, written, setting):
    file = _settings(
        tmp_path, f'database_url = "sqlite:///{tmp_path}/x.db"\n[governor]\n{written}\n'
    )
    result = CliRunner().invoke(command, ["--config", str(file), "--port", "0"])
    assert result.exit_code == 2
    assert result.output.startswith(f"Error: setting {setting}: policy 'nosuch' does not exist")
    assert "known: " in result.output
    assert "default" in result.output
