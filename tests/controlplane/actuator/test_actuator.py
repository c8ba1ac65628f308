import pytest

from contract.admin import CauseKind
from contract.problem import Problem
from contract.runtime_config import RuntimeConfig
from controlplane.actuator import bias_snapshots, holds
from controlplane.actuator.action import Change, ChangeKind, Phase
from controlplane.audit import log
from controlplane.errors import ConflictError
from controlplane.policy.knob import Knob
from tests.support.governed import FAIL, RAISE_C, UNSURE, bias_change, make_ground


def test_a_change_is_applied_settled_verified_and_kept(ground):
    action = ground.run_out(ground.propose())
    assert action.phase is Phase.SUCCEEDED
    assert ground.engine.config.capacity_factor == "1.5"
    assert len(ground.engine.mutations) == 1
    assert [after for _, after in ground.transitions] == [
        Phase.APPLYING, Phase.SETTLING, Phase.VERIFYING, Phase.SUCCEEDED,
    ]  # fmt: skip
    cause = ground.engine.document.cause
    assert (cause.kind, cause.id) == (CauseKind.DECISION, "act-1:apply:0:0")


def test_a_change_is_carried_through_on_every_database(database, loopback_host):
    with make_ground(database, 1, loopback_host) as ground:
        action_id = ground.propose()
        with pytest.raises(ConflictError, match="in flight"):
            ground.propose(action_id="act-2")
        assert ground.run_out(action_id).phase is Phase.SUCCEEDED


def test_every_phase_is_in_the_audit_log(ground):
    action_id = ground.propose()
    ground.run_out(action_id)
    with ground.database.read() as session:
        events = log.newest(session, subject=action_id)
        assert [event.kind for event in reversed(events)] == [
            "action.applying", "action.settling", "action.verifying", "action.succeeded",
        ]  # fmt: skip
        assert (events[0].value_from, events[0].value_to) == ("1.25", "1.5")
        assert log.verify(session).holds


def test_verification_waits_for_requests_of_the_new_generation(ground):
    ground.words.deaf = True
    action_id = ground.propose()
    ground.tick()
    ground.tick(45)
    assert ground.action(action_id).phase is Phase.SETTLING
    ground.words.deaf = False
    ground.tick(1)
    assert ground.action(action_id).phase is Phase.VERIFYING


def test_a_failed_verification_restores_the_exact_config_and_bars_the_change(ground):
    before = ground.engine.document.config_hash
    ground.words.word = FAIL
    action = ground.run_out(ground.propose())
    assert action.phase is Phase.REVERTED
    assert ground.engine.document.config_hash == before
    with ground.database.read() as session:
        barred = holds.quarantined(session, "group-0", ground.clock.now())
    assert list(barred) == ["capacity_factor=1.5"]


def test_inconclusive_extends_once_and_then_reverts(ground):
    ground.words.word = UNSURE
    action_id = ground.propose()
    extended = False
    for _ in range(30):
        ground.tick(20)
        extended = extended or ground.action(action_id).extended
    assert extended
    assert ground.action(action_id).phase is Phase.REVERTED
    assert ground.engine.config.capacity_factor == "1.25"


def test_a_bad_bias_is_never_put_back(ground):
    bad = ground.engine.drift()
    ground.words.word = FAIL
    action = ground.run_out(ground.propose(change=bias_change(ground.engine)))
    assert action.phase is Phase.ESCALATED
    assert ground.engine.live_bias == ground.engine.last_known_good != bad
    assert len(ground.engine.mutations) == 1


def test_a_bias_that_the_engine_lost_is_uploaded_first(ground):
    engine = ground.engine
    good = engine.last_known_good
    info, blob = engine.infos[good], ground.admins.of("engine-0").bias_blob(good)
    with ground.database.write() as session:
        bias_snapshots.store(session, "engine-0", info, at=1.0, payload=blob)
    change = bias_change(engine)
    engine.drift()
    del engine.biases[good], engine.infos[good]
    action = ground.run_out(ground.propose(change=change))
    assert action.phase is Phase.SUCCEEDED
    assert engine.live_bias == good
    assert [m.path.rsplit("/", 1)[1] for m in engine.mutations] == [good, "rollback"]


def test_a_lost_bias_that_nobody_holds_fails_with_a_sentence(ground):
    change = Change(
        kind=ChangeKind.BIAS_ROLLBACK, knob=Knob.ROUTER_BIAS, before="a" * 64, after="b" * 64
    )
    action = ground.run_out(ground.propose(change=change))
    assert action.phase is Phase.FAILED
    assert "has no bias" in action.note
    assert ground.engine.mutations == []


def test_a_foreign_generation_is_adopted_not_reverted(ground):
    action_id = ground.propose()
    ground.tick()
    ground.engine.change(capacity_factor="2")
    action = ground.run_out(action_id)
    assert action.phase is Phase.SUPERSEDED
    assert "kim" in action.note
    assert ground.engine.config.capacity_factor == "2"
    assert len(ground.engine.mutations) == 1


def test_a_lease_that_runs_out_ends_the_action_as_reverted(ground):
    change = RAISE_C.model_copy(update={"lease_seconds": 600.0})
    action_id = ground.propose(change=change)
    ground.tick()
    assert set(ground.engine.leases) == {"capacity_factor"}
    ground.engine.expire_lease("capacity_factor")
    assert ground.run_out(action_id).phase is Phase.REVERTED
    assert len(ground.engine.mutations) == 1


def test_an_engine_that_refuses_ends_the_action_as_failed(ground):
    ground.engine.trouble.refuse = Problem(
        type="refused", title="", status=409, detail="dispatch buffers of C = 1.5 do not fit"
    )
    action = ground.run_out(ground.propose())
    assert action.phase is Phase.FAILED
    assert "do not fit" in action.note


def test_a_moved_value_ends_the_action(ground):
    ground.engine.change(capacity_factor="1.75")
    action = ground.run_out(ground.propose())
    assert action.phase is Phase.FAILED
    assert "no longer 1.25" in action.note


def test_a_stale_page_cannot_act(ground):
    change = RAISE_C.model_copy(update={"expected_etag": '"0-old"'})
    action = ground.run_out(ground.propose(change=change))
    assert action.phase is Phase.FAILED
    assert "moved from" in action.note


def test_an_impossible_value_is_not_sent(ground):
    change = Change(kind=ChangeKind.KNOB, knob=Knob.MAX_CONCURRENCY, before=64, after=1024)
    action = ground.run_out(ground.propose(change=change))
    assert action.phase is Phase.FAILED
    assert "chunk_size" in action.note


def test_a_whole_config_can_be_restored_and_taken_back(ground):
    ground.engine.change(chunk_size=1024, capacity_factor="2")
    old = RuntimeConfig(router_bias=ground.engine.last_known_good)
    change = Change(
        kind=ChangeKind.CONFIG_ROLLBACK, before=ground.engine.config.content_hash(),
        after=old.content_hash(), config=old,
    )  # fmt: skip
    before = ground.engine.document.config_hash
    ground.words.word = FAIL
    action = ground.run_out(ground.propose(change=change, created_by="kim"))
    assert action.phase is Phase.REVERTED
    assert ground.engine.document.config_hash == before
    assert [m.config.chunk_size for m in ground.engine.mutations] == [512, 1024]


def test_the_canary_goes_first_and_the_rest_after_it_passed(group):
    action_id = group.propose()
    group.tick()
    touched = {name for name, engine in group.engines.items() if engine.mutations}
    assert touched == {"engine-0"}
    assert group.run_out(action_id).phase is Phase.SUCCEEDED
    assert all(e.config.capacity_factor == "1.5" for e in group.engines.values())


def test_a_failing_canary_spares_the_rest(group):
    group.words.word = FAIL
    assert group.run_out(group.propose()).phase is Phase.REVERTED
    assert [len(e.mutations) for e in group.engines.values()] == [2, 0, 0]


def test_a_late_failure_reverts_every_engine(group):
    action_id = group.propose()
    for _ in range(40):
        group.tick(20)
        if len(group.action(action_id).applied) == 3:
            group.words.word = FAIL
        if group.action(action_id).is_final:
            break
    assert group.action(action_id).phase is Phase.REVERTED
    assert all(e.config.capacity_factor == "1.25" for e in group.engines.values())


def test_quarantine_doubles_up_to_a_day(ground):
    lengths = []
    for _ in range(7):
        with ground.database.write() as session:
            until = holds.quarantine(
                session, group="g", key="k", action_id="a", at=0.0, first_seconds=3600.0
            )
        lengths.append(until / 3600)
    assert lengths == [1, 2, 4, 8, 16, 24, 24]
