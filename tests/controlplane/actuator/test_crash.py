"""The process dies at every write and around every send of an action; another one takes over."""

from contextlib import contextmanager

import pytest

from controlplane.actuator.action import Phase
from tests.support.governed import FAIL, PASS, bias_change


class KilledError(BaseException):
    """kill -9: nothing catches it."""


class Mortal:
    """A database that dies at the n-th write, before or after its commit."""

    def __init__(self, database, at, *, after_commit):
        self._database, self._left, self._after = database, at, after_commit

    def read(self):
        return self._database.read()

    @contextmanager
    def write(self):
        self._left -= 1
        if self._left == 0 and not self._after:
            with self._database.write() as session:
                yield session
                raise KilledError
        with self._database.write() as session:
            yield session
        if self._left == 0:
            raise KilledError


class MortalAdmin:
    """An admin that dies around its n-th send."""

    def __init__(self, admin, at, *, after):
        self._admin, self._left, self._after = admin, at, after

    def __getattr__(self, name):
        return getattr(self._admin, name)

    def send(self, mutation, **options):
        self._left -= 1
        if self._left == 0 and not self._after:
            raise KilledError
        result = self._admin.send(mutation, **options)
        if self._left == 0:
            raise KilledError
        return result


def run_until_killed(ground, actuator, action_id):
    """Tick until the process dies or the action is final; tells whether it died."""
    for _ in range(30):
        ground.clock.advance(20)
        try:
            actuator.run(ground.fence)
        except KilledError:
            return True
        if ground.action(action_id).is_final:
            return False
    raise AssertionError("neither died nor finished")


def kill_everywhere(ground, kill, expect):
    """Kill at the first, second, … opportunity until there is none left."""
    deaths = 0
    for n in range(1, 40):
        action_id = ground.propose(action_id=f"act-{n}")
        before = len(ground.engine.mutations)
        died = run_until_killed(ground, kill(n), action_id)
        deaths += died
        action = ground.run_out(action_id)
        expect(action, ground.engine.mutations[before:])
        ground.engine.change(capacity_factor="1.25")
        if not died:
            return deaths
    raise AssertionError("more than 40 opportunities to die")


def kept_once(action, mutations):
    assert action.phase is Phase.SUCCEEDED
    assert [m.config.capacity_factor for m in mutations] == ["1.5"]


def reverted_once(action, mutations):
    assert action.phase is Phase.REVERTED
    assert [m.config.capacity_factor for m in mutations] == ["1.5", "1.25"]


@pytest.mark.parametrize("after_commit", [False, True])
@pytest.mark.parametrize(("word", "expect"), [(PASS, kept_once), (FAIL, reverted_once)])
def test_dying_at_any_write_ends_applied_and_verified_or_reverted_never_twice(
    ground, word, expect, after_commit
):
    ground.words.word = word

    def kill(n):
        return ground.fresh_actuator(Mortal(ground.database, n, after_commit=after_commit))

    assert kill_everywhere(ground, kill, expect) >= 5


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(("word", "expect"), [(PASS, kept_once), (FAIL, reverted_once)])
def test_dying_around_any_send_neither_loses_nor_repeats_it(ground, word, expect, after):
    ground.words.word = word
    admin = ground.admins.by_id["engine-0"]

    def kill(n):
        ground.admins.by_id["engine-0"] = MortalAdmin(admin, n, after=after)
        return ground.fresh_actuator()

    assert kill_everywhere(ground, kill, expect) == (1 if word is PASS else 2)


@pytest.mark.parametrize("after", [False, True])
def test_a_bias_rollback_survives_dying_around_its_send(ground, after):
    ground.engine.drift()
    action_id = ground.propose(change=bias_change(ground.engine))
    admin = ground.admins.by_id["engine-0"]
    ground.admins.by_id["engine-0"] = MortalAdmin(admin, 1, after=after)
    assert run_until_killed(ground, ground.fresh_actuator(), action_id)
    assert ground.run_out(action_id).phase is Phase.SUCCEEDED
    assert len(ground.engine.mutations) == 1
    assert ground.engine.live_bias == ground.engine.last_known_good
