from controlplane.actuator.action import Phase
from controlplane.audit import decisions, log
from controlplane.policy.knob import Knob


def test_a_healthy_engine_is_left_alone(governed):
    governed.warm()
    governed.run(10)
    assert governed.actions() == []
    assert governed.engine.mutations == []
    with governed.database.read() as session:
        assert decisions.find(session)[0].reason == "healthy"


def test_a_drifting_bias_is_rolled_back_verified_and_explained(governed):
    governed.warm()
    bad = governed.engine.drift()
    governed.run(60)
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


def test_overflow_raises_c_by_the_rung_that_holds(governed):
    governed.warm()
    governed.plant.overflow = 0.08
    governed.run(60)
    first = governed.actions()[0]
    assert first.change.knob is Knob.CAPACITY_FACTOR
    assert first.phase is Phase.SUCCEEDED
    assert governed.engine.config.capacity_factor == "1.5"
    assert set(governed.engine.leases) == {"capacity_factor"}
