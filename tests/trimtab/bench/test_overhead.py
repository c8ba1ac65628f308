import pytest

from trimtab.bench.overhead import Block, figure, pairs_of, ratio


def test_neighbours_are_paired_on_first_whatever_their_order():
    on, off = Block(True, 10, 1.0), Block(False, 10, 0.8)
    assert pairs_of([on, off, off, on, on]) == [(on, off), (on, off)]


def test_the_ratio_weighs_steps_not_blocks():
    pairs = [
        (Block(True, 100, 1.0), Block(False, 50, 0.5)),
        (Block(True, 1, 1.0), Block(False, 50, 0.5)),
    ]
    assert ratio(pairs) == pytest.approx((2.0 / 101) / (1.0 / 100))


def test_the_interval_covers_the_value_and_repeats():
    pairs = [
        (Block(True, 50, 0.5 + 0.001 * i), Block(False, 50, 0.5 - 0.001 * i)) for i in range(20)
    ]
    found = figure(pairs)
    assert found.low is not None
    assert found.high is not None
    assert found.low <= found.value <= found.high
    assert figure(pairs) == found
    assert found.holds is False
