import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial

import pytest

from controlplane.errors import OverloadedError
from controlplane.ingest.gathering import BATCH, BATCH_BYTES, MAX_WAITING_BYTES, Gathering

LONG = 60.0
"""A pause that no test waits for: what it gathers is done for another reason."""


def _nothing() -> None:
    pass


def _each(batch: Sequence[Callable[[], object]]) -> None:
    for work in batch:
        work()


@pytest.fixture
def patient():
    gathering = Gathering(2, LONG, 3 * BATCH, _each)
    yield gathering
    gathering.close()


def _submit(gathering: Gathering, work: Callable[[], object], size: int = 0) -> Future:
    """Work whose result somebody waits for."""
    done: Future = Future()
    gathering.submit(lambda: done.set_result(work()), size)
    return done


def test_what_comes_after_a_silence_is_done_soon(patient):
    assert _submit(patient, lambda: 7).result(5) == 7


def test_what_trickles_in_gathers_until_there_is_enough(patient):
    _submit(patient, _nothing).result(5)
    gathered = [_submit(patient, partial(int, n)) for n in range(1, BATCH)]
    threading.Event().wait(0.05)
    assert not any(future.done() for future in gathered)
    gathered.append(_submit(patient, lambda: BATCH))
    assert [future.result(5) for future in gathered] == list(range(1, BATCH + 1))


def test_a_pause_ends_by_itself():
    gathering = Gathering(2, 0.05, 99, _each)
    assert [_submit(gathering, partial(int, n)).result(5) for n in range(3)] == [0, 1, 2]
    gathering.close()


def test_what_has_gathered_is_handed_over_together():
    batches: list[list[int]] = []
    gathering: Gathering[int] = Gathering(1, LONG, 99, lambda batch: batches.append(list(batch)))
    for n in range(BATCH):
        gathering.submit(n)
    gathering.close()
    assert batches == [list(range(BATCH))]


def test_a_batch_that_fails_is_logged_and_the_next_is_done(caplog):
    gathering = Gathering(1, 0.0, 99, _each)
    gathering.submit(lambda: print(1 // 0))
    while gathering._waiting:
        threading.Event().wait(0.001)
    assert _submit(gathering, lambda: 5).result(5) == 5
    gathering.close()
    assert "ZeroDivisionError" in caplog.text


def test_more_than_the_bound_is_refused_and_nothing_of_it_is_done():
    gate = threading.Event()
    gathering = Gathering(1, 0.0, 2, _each)
    first = _submit(gathering, lambda: gate.wait(5))
    while gathering._waiting:
        threading.Event().wait(0.001)
    waiting = [_submit(gathering, lambda: True) for _ in range(2)]
    with pytest.raises(OverloadedError) as refused:
        gathering.submit(_nothing)
    assert refused.value.bound == 2
    gate.set()
    assert all(future.result(5) for future in [first, *waiting])
    gathering.close()


def test_more_bytes_than_may_wait_are_refused_but_a_large_piece_alone_is_not():
    gate = threading.Event()
    gathering = Gathering(1, 0.0, 99, _each)
    first = _submit(gathering, lambda: gate.wait(5), 2 * MAX_WAITING_BYTES)
    while gathering._waiting:
        threading.Event().wait(0.001)
    second = _submit(gathering, lambda: True, MAX_WAITING_BYTES)
    with pytest.raises(OverloadedError) as refused:
        gathering.submit(_nothing, 1)
    assert refused.value.bound == MAX_WAITING_BYTES
    gate.set()
    assert first.result(5)
    assert second.result(5)
    gathering.close()


def test_closing_does_what_waits():
    gathering = Gathering(2, LONG, 99, _each)
    _submit(gathering, _nothing).result(5)
    waiting = [_submit(gathering, partial(int, n)) for n in range(3)]
    gathering.close()
    assert [future.result(5) for future in waiting] == [0, 1, 2]


def test_a_slow_piece_does_not_hold_up_what_comes_after_it(patient):
    gate = threading.Event()
    slow = _submit(patient, lambda: int(gate.wait(5)), BATCH_BYTES)
    while patient._waiting:
        threading.Event().wait(0.001)
    rest = [_submit(patient, partial(int, n)) for n in range(BATCH)]
    assert [future.result(5) for future in rest] == list(range(BATCH))
    assert not slow.done()
    gate.set()
    assert slow.result(5) == 1


def test_large_pieces_are_not_taken_by_one_thread_together(patient):
    gate = threading.Event()
    _submit(patient, _nothing).result(5)
    slow = _submit(patient, lambda: int(gate.wait(5)), BATCH_BYTES)
    quick = _submit(patient, lambda: 7, BATCH_BYTES)
    assert quick.result(5) == 7
    assert not slow.done()
    gate.set()
    assert slow.result(5) == 1
