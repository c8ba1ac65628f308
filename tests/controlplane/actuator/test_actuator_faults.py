"""Lost answers, lost requests, silent engines and leaders that are none."""

import pytest

from controlplane.actuator.action import Phase
from controlplane.actuator.fence import Fence
from controlplane.actuator.models import LeaderLease
from controlplane.errors import FencedError
from tests.support.governed import FAIL


def test_a_lost_answer_is_found_by_its_cause(ground):
    ground.engine.trouble.lose_answer = True
    action = ground.run_out(ground.propose())
    assert action.phase is Phase.SUCCEEDED
    assert len(ground.engine.mutations) == 1


def test_a_lost_request_is_sent_again_with_the_same_key(ground):
    ground.engine.trouble.lose_request = True
    action = ground.run_out(ground.propose())
    assert action.phase is Phase.SUCCEEDED
    assert [m.key for m in ground.engine.mutations] == ["act-1:apply:0:0"]


def test_an_engine_that_never_comes_back_is_not_waited_for_forever(ground):
    ground.engine.trouble.down = True
    assert ground.run_out(ground.propose()).phase is Phase.FAILED


def test_silence_after_applying_escalates_once_reverting_is_due(ground):
    action_id = ground.propose()
    ground.tick()
    ground.words.word = FAIL
    ground.engine.trouble.down = True
    assert ground.run_out(action_id).phase is Phase.ESCALATED


def test_a_leader_that_was_paused_writes_nothing(ground):
    action_id = ground.propose()
    with ground.database.write() as session:
        lease = session.get(LeaderLease, "leader")
        lease.holder, lease.epoch = "other", 2
    with pytest.raises(FencedError, match="no longer leads"):
        ground.tick()
    assert ground.action(action_id).phase is Phase.PROPOSED


def test_a_leader_whose_renewal_is_old_pushes_nothing(ground):
    action_id = ground.propose()
    ground.fence = Fence(holder="me", epoch=1, still_leads=lambda: False)
    with pytest.raises(FencedError, match="could not renew"):
        ground.tick()
    assert ground.engine.mutations == []
    assert ground.action(action_id).intent is not None


def test_an_engine_refuses_a_stale_epoch_and_the_action_is_left_alone(ground):
    ground.engine.epoch_seen = 9
    action_id = ground.propose()
    with pytest.raises(FencedError, match="stale"):
        ground.tick()
    assert ground.engine.mutations == []
    assert ground.action(action_id).phase is Phase.APPLYING
