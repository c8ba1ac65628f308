import json

from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import text

from controlplane.audit import log
from controlplane.audit.chain import GENESIS, Event, check_chain, link


def write(database, *kinds):
    with database.write() as session:
        for index, kind in enumerate(kinds):
            log.append(session, Event(actor="kim", kind=kind, subject=f"s{index}"), at=10.0 + index)


def test_events_are_chained_and_verified(database):
    write(database, "freeze.created", "action.applying", "action.applied")
    with database.read() as session:
        check = log.verify(session)
        assert check.holds
        assert check.events == 3
        assert [event.sequence for event in log.newest(session, limit=2)] == [3, 2]


def test_an_empty_log_holds(sqlite_database):
    with sqlite_database.read() as session:
        check = log.verify(session)
    assert check.holds
    assert check.head == GENESIS


def test_a_changed_event_is_named(sqlite_database):
    write(sqlite_database, "a", "b", "c")
    with sqlite_database.write() as session:
        session.execute(text("UPDATE audit_event SET actor = 'eve' WHERE sequence = 2"))
    with sqlite_database.read() as session:
        check = log.verify(session)
    assert check.broken_at == 2
    assert "changed" in check.message


def test_a_dropped_event_is_named(sqlite_database):
    write(sqlite_database, "a", "b", "c")
    with sqlite_database.write() as session:
        session.execute(text("DELETE FROM audit_event WHERE sequence = 2"))
    with sqlite_database.read() as session:
        assert log.verify(session).broken_at == 2


def test_a_cut_tail_is_noticed(sqlite_database):
    write(sqlite_database, "a", "b", "c")
    with sqlite_database.write() as session:
        session.execute(text("DELETE FROM audit_event WHERE sequence = 3"))
    with sqlite_database.read() as session:
        assert log.verify(session).broken_at == 3


def test_an_export_can_be_verified_on_its_own(sqlite_database):
    write(sqlite_database, "a", "b")
    with sqlite_database.read() as session:
        events = [json.loads(line) for line in log.export_lines(session)]
    assert check_chain(events, head=(2, events[-1]["hash"])).holds
    events[0]["subject"] = "other"
    assert check_chain(events, head=(2, events[-1]["hash"])).broken_at == 1


def test_filters_narrow_the_list(sqlite_database):
    write(sqlite_database, "freeze.created", "freeze.lifted", "pin.created")
    with sqlite_database.read() as session:
        assert len(log.newest(session, kind="freeze.")) == 2
        assert len(log.newest(session, subject="s2")) == 1
        assert log.newest(session, before=2)[0].sequence == 1


@given(st.lists(st.text(max_size=8), min_size=1, max_size=8), st.data())
def test_any_single_change_breaks_the_chain(subjects, data):
    events, previous = [], GENESIS
    for sequence, subject in enumerate(subjects, 1):
        fields = Event(actor="a", kind="k", subject=subject).fields(sequence=sequence, at=1.0)
        hashed = link(previous, fields)
        events.append({**fields, "previous_hash": previous, "hash": hashed})
        previous = hashed
    head = (len(events), previous)
    assert check_chain(events, head=head).holds
    victim = data.draw(st.integers(0, len(events) - 1))
    events[victim] = {**events[victim], "subject": events[victim]["subject"] + "x"}
    assert check_chain(events, head=head).broken_at == victim + 1
