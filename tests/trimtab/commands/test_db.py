"""`trimtab db`, on both databases."""

import pytest
from click.testing import CliRunner
from sqlalchemy import update

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
