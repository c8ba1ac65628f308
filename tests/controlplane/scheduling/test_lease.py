import pytest
from sqlalchemy import literal

from controlplane.clock import ManualClock
from controlplane.db.database import Database
from controlplane.errors import FencedError
from controlplane.scheduling.lease import Lease


class World:
    """Two processes with clocks of their own over one database with a clock of its own."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.server = ManualClock()
        self.clocks = {"a": ManualClock(), "b": ManualClock()}
        self.a, self.b = self.lease("a"), self.lease("b")

    def lease(self, name: str) -> Lease:
        return Lease(
            self.database, self.clocks[name], name, now=lambda _db: literal(self.server.now())
        )

    def advance(self, seconds: float, *names: str) -> None:
        self.server.advance(seconds)
        for name in names:
            self.clocks[name].advance(seconds)


@pytest.fixture
def world(database) -> World:
    return World(database)


def test_one_of_two_leads(world):
    assert world.a.tend()
    assert not world.b.tend()
    fence = world.a.fence()
    assert fence is not None
    assert fence.epoch == 1
    assert world.b.fence() is None


def test_renewals_keep_the_lease(world):
    world.a.tend()
    for _ in range(10):
        world.advance(5, "a", "b")
        assert world.a.tend()
        assert not world.b.tend()


def test_a_holder_stops_acting_before_a_successor_may_start(world):
    world.a.tend()
    world.advance(11, "a", "b")
    assert world.a.fence() is None
    assert not world.b.tend()
    world.advance(5, "a", "b")
    assert world.b.tend()


def test_a_paused_leader_meets_the_new_epoch_in_its_next_write(world):
    world.a.tend()
    fence = world.a.fence()
    world.advance(16, "b")  # the clock of the paused process stands still
    assert world.b.tend()
    assert fence is not None
    assert fence.still_leads()
    with world.database.write() as session, pytest.raises(FencedError) as caught:
        fence.check(session)
    assert (caught.value.value, caught.value.bound) == (1, 2)
    assert not world.a.tend()
    assert world.a.fence() is None


def test_a_resigned_lease_is_free_at_once(world):
    world.a.tend()
    world.a.resign()
    assert world.a.fence() is None
    assert world.b.tend()
    assert world.b.fence().epoch == 2


def test_the_epoch_never_goes_back(world):
    epochs = []
    for _ in range(3):
        for lease in (world.a, world.b):
            world.advance(20, "a", "b")
            assert lease.tend()
            epochs.append(lease.fence().epoch)
    assert epochs == [1, 2, 3, 4, 5, 6]


def test_the_databases_own_clock_works(database):
    lease = Lease(database, ManualClock(), "me")
    assert lease.tend()
    assert lease.tend()
    assert not Lease(database, ManualClock(), "other").tend()


def test_an_engine_that_remembers_a_newer_epoch_is_outranked(world):
    world.a.tend()
    world.a.outrank(0)
    assert world.a.fence().epoch == 1
    world.a.outrank(7)
    assert world.a.fence().epoch == 8
    assert world.a.tend()
    world.b.outrank(100)
    with world.database.write() as session:
        world.a.fence().check(session)
