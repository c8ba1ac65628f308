"""`trimtab db`, on both databases."""

import sqlite3

import pytest
from click.testing import CliRunner
from sqlalchemy import text, update

from controlplane.db.database import open_database
from controlplane.history.models import LoadChunk, LoadRing, LoadRollup
from tests.support.history import filled
from trimtab.commands.db import command


@pytest.fixture
def trimtab(tmp_path, monkeypatch, database_url):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRIMTAB_DATABASE_URL", database_url)

    def run(*arguments: str):
        return CliRunner().invoke(command, list(arguments))

    return run


def test_a_sound_history_is_ok_and_has_sizes(trimtab, database_url):
    database = open_database(database_url)
    filled(database)
    database.close()
    assert trimtab("check").output == "ok\n"
    said = trimtab("stats").output
    assert "load_chunk" in said
    assert "frames known to be lost: 0" in said
    assert trimtab("vacuum").exit_code == 0
    assert trimtab("check").exit_code == 0


def test_damage_is_named_by_table_and_key(trimtab, database_url):
    database = open_database(database_url)
    filled(database)
    with database.write() as session:
        session.execute(update(LoadChunk).where(LoadChunk.part == 0).values(payload=b"x"))
        session.execute(update(LoadRing).where(LoadRing.slot == 3).values(payload=b"x"))
        session.execute(update(LoadRollup).where(LoadRollup.tier == 60).values(payload=b"x"))
    database.close()
    result = trimtab("check")
    assert result.exit_code == 1
    lines = result.output.splitlines()
    assert any(line.startswith("load_ring e0/3: ") for line in lines)
    assert any(line.startswith("load_chunk e0/") for line in lines)
    assert any(line.startswith("load_rollup e0/60/") for line in lines)


def test_an_old_schema_is_told_and_upgraded(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRIMTAB_DATABASE_URL", f"sqlite:///{tmp_path}/new.db")
    runner = CliRunner()
    assert "trimtab db upgrade" in runner.invoke(command, ["check"]).output
    assert runner.invoke(command, ["upgrade"]).output.startswith("empty -> ")
    assert runner.invoke(command, ["check"]).output == "ok\n"


def test_a_bad_setting_is_one_sentence_and_exit_2(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRIMTAB_DATABASE_URL", "mysql://x")
    result = CliRunner().invoke(command, ["stats"])
    assert result.exit_code == 2
    assert "database_url" in result.output


@pytest.mark.parametrize("to", ["0001", "base", "nonsense"])
def test_an_upgrade_does_not_go_back(trimtab, to):
    result = trimtab("upgrade", "--to", to)
    assert result.exit_code == 2
    assert "go back" in result.output or "is none of 0001" in result.output
    assert trimtab("check").output == "ok\n"


def test_the_revision_of_another_program_is_left_to_it(trimtab, database_url):
    database = open_database(database_url)
    with database.write() as session:
        session.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    database.close()
    for command_line in (("check",), ("upgrade",), ("vacuum",)):
        result = trimtab(*command_line)
        assert result.exit_code != 0
        assert "9999, which this program does not know" in result.output
        assert "db upgrade" not in result.output


@pytest.fixture
def at(tmp_path, monkeypatch):
    def at(name: str):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("TRIMTAB_DATABASE_URL", f"sqlite:///{tmp_path}/{name}")
        return tmp_path / name

    return at


@pytest.mark.parametrize("command_line", ["check", "stats", "vacuum"])
def test_a_file_that_is_not_there_is_not_made(at, command_line):
    file = at("mistyped.db")
    result = CliRunner().invoke(command, [command_line])
    assert result.exit_code == 2
    assert f"there is no database file {file}" in result.output
    assert not file.exists()


@pytest.mark.parametrize("kind", ["junk", "truncated", "folder", "foreign", "locked"])
def test_what_cannot_be_vacuumed_is_one_sentence(at, sqlite_url, kind):
    file = at("trimtab.db")
    other = None
    match kind:
        case "junk":
            file.write_bytes(b"no database" * 1000)
        case "truncated":
            file.write_bytes(file.read_bytes()[:20_000])
        case "folder":
            file.unlink()
            file.mkdir()
        case "foreign":
            file.unlink()
            sqlite3.connect(file).execute("CREATE TABLE theirs (id)").connection.close()
        case _:
            other = sqlite3.connect(file, isolation_level=None)
            other.execute("BEGIN EXCLUSIVE")
    result = CliRunner().invoke(command, ["vacuum"])
    if other is not None:
        other.close()
    assert (result.exit_code, isinstance(result.exception, SystemExit)) == (2, True)
    assert result.output.startswith("Error: ")
    assert len(result.output.splitlines()) == 1


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:"])
def test_a_database_in_memory_is_refused(tmp_path, monkeypatch, url):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRIMTAB_DATABASE_URL", url)
    result = CliRunner().invoke(command, ["stats"])
    assert result.exit_code == 2
    assert "names no file" in result.output
