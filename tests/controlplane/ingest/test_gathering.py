import threading
from functools import partial

import pytest

from controlplane.errors import OverloadedError
from controlplane.ingest.gathering import BATCH, BATCH_BYTES, Gathering

LONG = 60.0
"""A pause that no test waits for: what it gathers is done for another reason."""


@pytest.fixture
def patient():
    gathering: Gathering[int] = Gathering(2, LONG, bound=3 * BATCH)
    yield gathering
    gathering.close()


def test_what_comes_after_a_silence_is_done_at_once(patient):
    assert patient.submit(lambda: 7).result(5) == 7


def test_what_trickles_in_gathers_until_there_is_enough(patient):
    patient.submit(lambda: 0).result(5)
    gathered = [patient.submit(partial(int, n)) for n in range(1, BATCH)]
    threading.Event().wait(0.05)
    assert not any(future.done() for future in gathered)
    gathered.append(patient.submit(lambda: BATCH))
    assert [future.result(5) for future in gathered] == list(range(1, BATCH + 1))


def test_a_pause_ends_by_itself():
    gathering: Gathering[int] = Gathering(2, 0.05, bound=99)
    assert [gathering.submit(partial(int, n)).result(5) for n in range(3)] == [0, 1, 2]
    gathering.close()


def test_a_failure_belongs_to_its_own_work_alone(patient):
    patient.submit(lambda: 0).result(5)
    bad = patient.submit(lambda: 1 // 0)
    good = [patient.submit(lambda: 5) for _ in range(BATCH - 1)]
    assert [future.result(5) for future in good] == [5] * (BATCH - 1)
    with pytest.raises(ZeroDivisionError):
        bad.result(5)


def test_work_that_nobody_waits_for_any_more_is_left_out(patient):
    patient.submit(lambda: 0).result(5)
    done = []
    gone = patient.submit(lambda: done.append("gone"))
    assert gone.cancel()
    rest = [patient.submit(lambda: 5) for _ in range(BATCH - 1)]
    assert rest[-1].result(5) == 5
    assert done == []


def test_more_than_the_bound_is_refused_and_nothing_of_it_is_done():
    gate = threading.Event()
    gathering: Gathering[bool] = Gathering(1, 0.0, bound=2)
    first = gathering.submit(lambda: gate.wait(5))
    while gathering._waiting:
        threading.Event().wait(0.001)
    waiting = [gathering.submit(lambda: True) for _ in range(2)]
    with pytest.raises(OverloadedError) as refused:
        gathering.submit(lambda: True)
    assert refused.value.bound == 2
    gate.set()
    assert all(future.result(5) for future in [first, *waiting])
    gathering.close()


def test_closing_does_what_waits():
    gathering: Gathering[int] = Gathering(2, LONG, bound=99)
    gathering.submit(lambda: 0).result(5)
    waiting = [gathering.submit(partial(int, n)) for n in range(3)]
    gathering.close()
    assert [future.result(5) for future in waiting] == [0, 1, 2]


def test_a_slow_piece_does_not_hold_up_what_comes_after_it(patient):
    gate = threading.Event()
    slow = patient.submit(lambda: int(gate.wait(5)), BATCH_BYTES)
    while patient._waiting:
        threading.Event().wait(0.001)
    rest = [patient.submit(partial(int, n)) for n in range(BATCH)]
    assert [future.result(5) for future in rest] == list(range(BATCH))
    assert not slow.done()
    gate.set()
    assert slow.result(5) == 1


def test_large_pieces_are_not_taken_by_one_thread_together(patient):
    gate = threading.Event()
    patient.submit(lambda: 0).result(5)
    slow = patient.submit(lambda: int(gate.wait(5)), BATCH_BYTES)
    quick = patient.submit(lambda: 7, BATCH_BYTES)
    assert quick.result(5) == 7
    assert not slow.done()
    gate.set()
    assert slow.result(5) == 1
