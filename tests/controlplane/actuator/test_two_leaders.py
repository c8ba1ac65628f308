"""A leader is paused in the middle of an action; another one takes over; the first wakes up."""

import pytest

from controlplane.actuator.action import Phase
from controlplane.actuator.fence import Fence
from controlplane.actuator.models import LeaderLease
from controlplane.errors import FencedError
from tests.support.governed import FAIL


class PausedAdmin:
    """Holds its first send back until `meanwhile` has run: SIGSTOP at the worst moment."""

    def __init__(self, admin, meanwhile, *, after):
        self._admin, self._meanwhile, self._after = admin, meanwhile, after

    def __getattr__(self, name):
        return getattr(self._admin, name)

    def send(self, mutation, **options):
        meanwhile, self._meanwhile = self._meanwhile, None
        if meanwhile is None:
            return self._admin.send(mutation, **options)
        if self._after:
            result = self._admin.send(mutation, **options)
            meanwhile()
            return result
        meanwhile()
        return self._admin.send(mutation, **options)


def take_over(ground):
    """Another process leads from now on, with epoch 2."""
    with ground.database.write() as session:
        lease = session.get(LeaderLease, "leader")
        lease.holder, lease.epoch = "other", 2
    ground.fence = Fence(holder="other", epoch=2, still_leads=lambda: True)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("fails", [False, True])
def test_the_successor_finishes_and_the_paused_leader_changes_nothing(ground, after, fails):
    if fails:
        ground.words.word = FAIL
    action_id = ground.propose()
    old, plain = ground.fence, ground.admins.by_id["engine-0"]

    def meanwhile():
        take_over(ground)
        ground.admins.by_id["engine-0"] = plain
        ground.run_out(action_id)

    ground.admins.by_id["engine-0"] = PausedAdmin(plain, meanwhile, after=after)
    with pytest.raises(FencedError):
        ground.actuator.advance(action_id, old)
    action = ground.action(action_id)
    assert action.phase is (Phase.REVERTED if fails else Phase.SUCCEEDED)
    expected = ["1.5", "1.25"] if fails else ["1.5"]
    assert [m.config.capacity_factor for m in ground.engine.mutations] == expected
    assert ground.engine.epoch_seen == (2 if fails or not after else 1)
