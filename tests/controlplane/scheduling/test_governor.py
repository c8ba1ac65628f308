from dataclasses import replace

from contract.problem import Problem
from controlplane.actuator import holds, policy_store
from controlplane.actuator.action import Phase
from controlplane.actuator.lease_renewal import READ_LATELY_SECONDS, may_be_due
from controlplane.audit import decisions, log
from controlplane.errors import FencedError
from controlplane.policy.knob import Knob, Mode
from tests.support.governed_plant import governed_plant


def give_modes(governed, **modes: Mode) -> None:
    with governed.database.write() as session:
        policy_store.assign(
            session, engine_id="*", policy="fast", author="kim", at=governed.clock.now(),
            modes={Knob(knob): mode for knob, mode in modes.items()},
        )  # fmt: skip


def test_a_healthy_engine_is_left_alone_and_the_reason_is_kept_once(governed):
    governed.warm()
    governed.run(14)
    assert governed.actions() == []
    assert governed.engine.mutations == []
    with governed.database.read() as session:
        newest, *older = decisions.find(session)
        assert newest.reason == "healthy"
        assert newest.last_at > newest.at
        assert len(older) <= 1


def test_a_drifting_bias_is_rolled_back_verified_and_explained(governed):
    governed.warm()
    bad = governed.engine.drift()
    governed.run(50)
    action = next(a for a in governed.actions() if a.change.knob is Knob.ROUTER_BIAS)
    assert action.phase is Phase.SUCCEEDED
    assert (action.change.before, action.change.after) == (bad, governed.engine.last_known_good)
    assert governed.engine.live_bias == governed.engine.last_known_good
    with governed.database.read() as session:
        decision = decisions.get(session, action.decision_id)
        assert decision is not None
        assert decision.reason == "bias_drift"
        snapshot = decisions.snapshot_of(decision)
        assert snapshot["attribution"]["cause"] == "bias"
        assert log.verify(session).holds
    outcomes = governed.instruments.counter("trimtab_actions_total")
    assert outcomes.labels("engine-0", "router_bias", "succeeded")._value.get() == 1


def test_overflow_raises_c_by_the_rung_that_holds_and_later_relaxes(governed):
    governed.warm()
    governed.plant.overflow = 0.08
    governed.run(50)
    first = governed.actions()[0]
    assert first.change.knob is Knob.CAPACITY_FACTOR
    assert first.phase is Phase.SUCCEEDED
    assert governed.engine.config.capacity_factor == "1.5"
    assert set(governed.engine.leases) == {"capacity_factor"}
    governed.plant.overflow = 0.005
    governed.run(80)
    assert governed.engine.config.capacity_factor == "1.25"
    assert governed.actions()[-1].change.relax
    assert governed.engine.leases == {}


def test_a_change_that_makes_things_worse_is_taken_back(governed):
    governed.warm()
    governed.plant.overflow = 0.08
    for _ in range(40):
        governed.run(2)
        if governed.engine.config.capacity_factor == "1.5":
            governed.plant.slow = 0.5
        if governed.actions() and governed.actions()[0].is_final:
            break
    action = governed.actions()[0]
    assert action.phase is Phase.REVERTED
    assert "tpot" in action.note
    assert governed.engine.config.capacity_factor == "1.25"


def test_approve_waits_for_a_human_and_asks_once(governed):
    give_modes(governed, router_bias=Mode.APPROVE)
    governed.warm()
    governed.engine.drift()
    governed.run(24)
    waiting = [a for a in governed.actions() if a.phase is Phase.AWAITING_APPROVAL]
    assert len(waiting) == 1
    assert governed.engine.mutations == []
    governed.governor.operations.approve(waiting[0].action_id, by="kim")
    governed.run(30)
    done = next(a for a in governed.actions() if a.action_id == waiting[0].action_id)
    assert (done.phase, done.approved_by) == (Phase.SUCCEEDED, "kim")


def test_shadow_logs_once_what_it_would_do_and_what_the_engine_says(governed):
    give_modes(governed, capacity_factor=Mode.SHADOW)
    governed.engine.trouble.refuse = Problem(type="refused", title="", status=409, detail="too big")
    governed.warm()
    governed.plant.overflow = 0.08
    governed.run(36)
    shadows = [a for a in governed.actions() if a.change.knob is Knob.CAPACITY_FACTOR]
    assert [a.phase for a in shadows] == [Phase.SHADOW_LOGGED]
    assert "too big" in shadows[0].note
    assert governed.engine.mutations == []


def test_a_generation_by_someone_else_is_adopted_and_its_knob_pinned(governed):
    governed.warm()
    governed.engine.change(capacity_factor="1.1")
    governed.plant.overflow = 0.08
    governed.run(36)
    assert governed.actions() == []
    assert governed.engine.config.capacity_factor == "1.1"
    with governed.database.read() as session:
        assert [row.knob for row in holds.pins(session, governed.clock.now())] == [
            "capacity_factor"
        ]
        assert log.newest(session, kind="config.adopted")[0].actor == "kim"
        assert decisions.find(session)[0].reason == "pinned"


def test_no_frames_means_no_action(governed):
    governed.warm()
    governed.plant.overflow = 0.08
    governed.run(4)
    governed.run(20, frames=False)
    assert governed.actions() == []
    with governed.database.read() as session:
        assert decisions.find(session)[0].reason == "stale"


def test_the_last_known_good_outlives_the_engines_disk(governed):
    governed.warm()
    good = governed.engine.last_known_good
    governed.engine.drift()
    governed.beat(tend=True)
    del governed.engine.biases[good], governed.engine.infos[good]
    governed.run(50)
    assert governed.engine.live_bias == good
    assert good in governed.engine.biases


def test_leases_are_renewed_while_their_governor_lives_and_for_an_hour_at_most(governed):
    governed.warm()
    governed.plant.overflow = 0.08
    governed.run(50)
    generation = governed.engine.document.generation
    restore, _, holder = governed.engine.leases["capacity_factor"]
    governed.clock.advance(115)
    governed.engine.leases["capacity_factor"] = (restore, 5.0, holder)
    governed.governor.tend(governed.fence)
    assert governed.engine.leases["capacity_factor"][1] == 120.0
    assert governed.engine.document.generation == generation
    governed.clock.advance(3700)
    governed.engine.leases["capacity_factor"] = (restore, 5.0, holder)
    governed.governor.tend(governed.fence)
    assert governed.engine.leases["capacity_factor"][1] == 5.0


def asked_for(governed, path: str) -> int:
    return sum(asked.endswith(path) for _, asked, _ in governed.engine.requests)


def test_an_engine_is_asked_for_its_biases_once_a_minute_and_when_a_frame_tells_of_another(
    governed,
):
    governed.warm()
    first = asked_for(governed, "/router-bias")
    assert first >= 1
    governed.run(24)
    assert asked_for(governed, "/router-bias") == first
    governed.engine.drift()
    governed.run(4)
    governed.beat(tend=True)
    assert asked_for(governed, "/router-bias") == first + 1
    governed.run(72)
    assert asked_for(governed, "/router-bias") > first + 1


def test_a_lease_that_was_just_read_is_not_read_again(governed):
    governed.warm()
    governed.run(4)
    before = asked_for(governed, "/config")
    governed.governor.tend(governed.fence)
    assert asked_for(governed, "/config") == before


def test_a_group_changes_its_canary_first(sqlite_database, loopback_host):
    with governed_plant(sqlite_database, loopback_host, engines=2) as governed:
        governed.warm()
        for plant in governed.plants.values():
            plant.overflow = 0.08
        raised = [False, False]
        while not any(raised):
            governed.run(2, every=2)
            raised = [p.engine.config.capacity_factor == "1.5" for p in governed.plants.values()]
        assert sorted(raised) == [False, True]
        governed.run(60)
        first = governed.actions()[0]
        assert (first.phase, len(first.applied)) == (Phase.SUCCEEDED, 2)
        assert all(len(p.engine.mutations) == 1 for p in governed.plants.values())


def test_an_engine_that_outlived_the_database_is_governed_again(governed):
    governed.engine.epoch_seen = 7
    governed.warm()
    governed.plant.overflow = 0.08
    for _ in range(8):
        try:
            governed.run(4)
        except FencedError:
            governed.governor.leader.lease.tend()
    assert governed.engine.mutations[0].epoch == 7


def test_an_engine_that_is_removed_and_comes_back_says_everything_anew(governed):
    governed.warm()
    governed.run(12)
    assert governed.governor.readback.known("engine-0").baseline is not None
    with governed.database.write() as session:
        for hook in governed.registry.on_removed:
            hook(session, "engine-0")
    assert governed.governor.readback.known("engine-0") is None
    before = asked_for(governed, "/router-bias")
    governed.engine.change(chunk_size=256)
    governed.beat(tend=True)
    governed.run(4)
    assert asked_for(governed, "/router-bias") > before
    assert governed.governor.readback.known("engine-0").baseline.chunk_size == 256


def test_a_reading_of_an_engine_that_fell_silent_rules_no_renewal_out(governed):
    governed.warm()
    known = governed.governor.readback.known("engine-0")
    now = governed.clock.now()
    assert not may_be_due(known, now, lease_seconds=120)
    assert may_be_due(replace(known, reachable=False), now, lease_seconds=120)
    assert may_be_due(None, now, lease_seconds=120)
    assert may_be_due(known, now + READ_LATELY_SECONDS + 1, lease_seconds=120)
