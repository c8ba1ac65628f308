from dataclasses import replace

from controlplane.audit import decisions
from controlplane.audit.chain import digest
from controlplane.audit.decisions import DecisionEntry

QUIET = DecisionEntry(
    engine_id="e0", group="g0", at=100.0, policy="default", policy_version=1, mode="auto",
    reason="cooldown", explanation="capacity_factor changed 12 s ago", escalate=False,
    proposal=None, alternatives=[{"knob": "capacity_factor", "lost_because": "cooldown"}],
    evidence={"slos": []}, snapshot={"at": 100.0},
)  # fmt: skip
ACT = replace(
    QUIET, at=110.0, reason="overflow_breach", action_id="act-1",
    proposal={"knob": "capacity_factor", "target": "1.5"},
)  # fmt: skip


def test_a_repeated_why_not_prolongs_its_row(database):
    with database.write() as session:
        first, new = decisions.record(session, QUIET)
        later = replace(QUIET, at=105.0, explanation="capacity_factor changed 17 s ago")
        again, new_again = decisions.record(session, later)
        assert (new, new_again) == (True, False)
        assert again.decision_id == first.decision_id
        assert (again.repeats, again.last_at) == (2, 105.0)


def test_a_changed_reason_makes_a_row(sqlite_database):
    with sqlite_database.write() as session:
        decisions.record(session, QUIET)
        decisions.record(session, ACT)
        decisions.record(session, replace(QUIET, at=120.0))
        assert [row.at for row in decisions.find(session)] == [120.0, 110.0, 100.0]
        assert [row.at for row in decisions.find(session, acted=True)] == [110.0]


def test_engines_do_not_share_rows(sqlite_database):
    with sqlite_database.write() as session:
        decisions.record(session, QUIET)
        _, new = decisions.record(session, replace(QUIET, engine_id="e1"))
        assert new
        assert len(decisions.find(session, engine_id="e1")) == 1


def test_an_alert_gets_a_row_of_its_own(sqlite_database):
    with sqlite_database.write() as session:
        decisions.record(session, QUIET)
        row, new = decisions.record(session, replace(QUIET, at=101.0, origin="alert:abc"))
        assert new
        assert row.origin == "alert:abc"


def test_the_snapshot_comes_back_whole(sqlite_database):
    with sqlite_database.write() as session:
        row, _ = decisions.record(session, replace(QUIET, snapshot={"at": 1.5, "findings": ["x"]}))
        key = row.decision_id
    with sqlite_database.read() as session:
        stored = decisions.get(session, key)
        assert stored is not None
        assert decisions.snapshot_of(stored) == {"at": 1.5, "findings": ["x"]}
        assert stored.evidence_digest == digest({"slos": []})


def test_the_newest_evaluation_is_replaced_also_when_its_decision_is_prolonged(database):
    with database.write() as session:
        first, _ = decisions.record(session, QUIET)
        later = replace(QUIET, at=105.0, explanation="17 s ago", snapshot={"at": 105.0})
        decisions.record(session, later)
        key = first.decision_id
    with database.read() as session:
        (newest,) = decisions.newest_evaluations(session)
        assert (newest.engine_id, newest.at, newest.decision_id) == ("e0", 105.0, key)
        assert newest.explanation == "17 s ago"
        assert decisions.snapshot_of(newest) == {"at": 105.0}
        assert decisions.newest_evaluation(session, "e1") is None
