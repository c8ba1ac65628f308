"""The schema goes up, equals the models, goes down, and goes up again; on both databases."""

from sqlalchemy import inspect, select

from controlplane.history.models import HourDue
from controlplane.history.partitions import Partitions
from migrations import run


def test_an_empty_database_upgrades_to_the_models_and_back(empty_database):
    assert run.current(empty_database) is None
    run.upgrade(empty_database)
    assert run.current(empty_database) == run.newest()
    assert run.differences(empty_database) == []

    run.downgrade(empty_database)
    assert inspect(empty_database.engine).get_table_names() == ["alembic_version"]

    run.upgrade(empty_database)
    assert run.differences(empty_database) == []


def test_a_missing_table_is_a_difference(empty_database):
    run.upgrade(empty_database)
    with empty_database.engine.begin() as connection:
        connection.exec_driver_sql("DROP TABLE incident_pin")
    assert any("incident_pin" in str(found) for found in run.differences(empty_database))


def test_revisions_form_one_line_of_growing_numbers():
    from pathlib import Path

    from alembic.script import ScriptDirectory

    scripts = ScriptDirectory(str(Path(run.__file__).parent))
    revisions = [script.revision for script in scripts.walk_revisions()]
    assert revisions == sorted(revisions, reverse=True)
    assert len(scripts.get_heads()) == 1


def test_data_survives_every_upgrade_from_the_first_revision(empty_database):
    from pathlib import Path

    from alembic.script import ScriptDirectory

    scripts = ScriptDirectory(str(Path(run.__file__).parent))
    revisions = [script.revision for script in reversed(list(scripts.walk_revisions()))]
    run.upgrade(empty_database, revisions[0])
    with empty_database.engine.begin() as connection:
        connection.exec_driver_sql(
            "INSERT INTO incident_pin (engine_id, started, ended, reason, actor, created_at)"
            " VALUES ('e0', 1, 2, 'kept', 'anna', 3)"
        )
    for revision in revisions[1:]:
        run.upgrade(empty_database, revision)
        with empty_database.engine.connect() as connection:
            rows = connection.exec_driver_sql("SELECT reason FROM incident_pin").all()
        assert [tuple(row) for row in rows] == [("kept",)]
    assert run.differences(empty_database) == []


def test_gaps_from_before_a_boot_was_first_seen_go(empty_database):
    run.upgrade(empty_database, "0004")
    boot = (
        "INSERT INTO engine_boot (engine_id, boot_id, first_started, last_started, last_ended,"
        " last_received, high_sequence, last_ordinal, frames, dropped_before, state_key, header)"
        " VALUES ('{0}', 'b', 884, 890, 891, 891, 890, 5, 6, {1}, 'k', '{{}}')"
    )
    gap = (
        "INSERT INTO frame_gap (engine_id, boot_id, first_sequence, last_sequence, started, ended)"
        " VALUES ('{0}', 'b', {1}, {2}, {3}, {4})"
    )
    with empty_database.engine.begin() as connection:
        for engine_id, dropped in (("ran-before", 0), ("dropped", 7)):
            connection.exec_driver_sql(boot.format(engine_id, dropped))
            connection.exec_driver_sql(gap.format(engine_id, 0, 883, 884, 884))
        connection.exec_driver_sql(gap.format("ran-before", 886, 886, 886, 887))
    run.upgrade(empty_database)
    with empty_database.engine.connect() as connection:
        boots = connection.exec_driver_sql(
            "SELECT engine_id, first_sequence FROM engine_boot ORDER BY engine_id"
        ).all()
        gaps = connection.exec_driver_sql(
            "SELECT engine_id, first_sequence FROM frame_gap ORDER BY engine_id"
        ).all()
    assert [tuple(row) for row in boots] == [("dropped", 0), ("ran-before", 884)]
    assert [tuple(row) for row in gaps] == [("dropped", 0), ("ran-before", 886)]


def test_hours_that_were_left_behind_are_due_after_the_upgrade(empty_database):
    run.upgrade(empty_database, "0004")
    rows = [
        ("whole", 60, 7200, 60), ("whole", 60, 7260, 60), ("whole", 3600, 7200, 120),
        ("low", 60, 7200, 60), ("low", 60, 7260, 60), ("low", 3600, 7200, 60),
        ("none", 60, 10_800, 60), ("cut", 60, 7260, 60), ("cut", 3600, 7200, 120),
    ]  # fmt: skip
    for tier, start in ((60, 0), (3600, 0)):
        if not empty_database.is_sqlite:
            Partitions(empty_database).ensure([("load_rollup", tier, start)])
    with empty_database.engine.begin() as connection:
        for engine_id, tier, t0, frames in rows:
            connection.exec_driver_sql(
                "INSERT INTO load_rollup (engine_id, tier, t0, frames, payload)"
                f" VALUES ('{engine_id}', {tier}, {t0}, {frames}, '')"
            )
    run.upgrade(empty_database)
    with empty_database.read() as session:
        due = session.execute(select(HourDue.engine_id, HourDue.t0).order_by(HourDue.engine_id))
        assert [tuple(row) for row in due] == [("low", 7200), ("none", 10_800)]
