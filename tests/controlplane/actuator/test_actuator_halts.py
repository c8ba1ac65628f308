"""A freeze, an abort and an approval that never comes."""

import pytest

from controlplane.actuator import action_store, holds
from controlplane.actuator.action import Phase
from controlplane.errors import ConflictError
from controlplane.policy.knob import Mode


def test_a_freeze_stops_a_verification_without_reverting(ground):
    action_id = ground.propose()
    ground.tick()
    _freeze(ground)
    ground.tick()
    assert ground.action(action_id).phase is Phase.STOPPED
    assert ground.engine.config.capacity_factor == "1.5"


def test_a_freeze_that_asks_for_it_takes_changes_back(ground):
    action_id = ground.propose()
    ground.tick()
    _freeze(ground, revert=True)
    assert ground.run_out(action_id).phase is Phase.REVERTED
    assert ground.engine.config.capacity_factor == "1.25"


def test_nothing_is_sent_while_frozen(ground):
    _freeze(ground)
    assert ground.run_out(ground.propose()).phase is Phase.STOPPED
    assert ground.engine.mutations == []


def test_an_abort_reverts_what_was_applied(ground):
    action_id = ground.propose()
    ground.tick()
    with ground.database.write() as session:
        action, version = action_store.load(session, action_id)
        action_store.save(
            session, action.model_copy(update={"abort_by": "kim"}), version=version, epoch=0, at=1.0
        )
    assert ground.run_out(action_id).phase is Phase.REVERTED
    with ground.database.read() as session:
        assert holds.quarantined(session, "group-0", ground.clock.now()) == {}


def test_an_approval_that_never_comes_expires(ground):
    action_id = ground.propose(phase=Phase.AWAITING_APPROVAL, mode=Mode.APPROVE)
    ground.tick(10)
    assert ground.action(action_id).phase is Phase.AWAITING_APPROVAL
    ground.tick(1800)
    assert ground.action(action_id).phase is Phase.EXPIRED


def test_two_actions_are_never_in_flight_on_one_group(ground):
    ground.propose()
    with pytest.raises(ConflictError, match="in flight"):
        ground.propose(action_id="act-2")


def _freeze(ground, *, revert=False):
    with ground.database.write() as session:
        holds.freeze(
            session, scope="fleet", reason="drill", author="kim", at=ground.clock.now(),
            ttl_seconds=1e6, revert=revert, tell_engines=False,
        )  # fmt: skip
