"""Sequences of a boot against an obvious model: the set of what has come."""

from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.history.sequence import Arrival, BootSequence, can_have_made

NOW = 1_000.0


@settings(deadline=None)
@given(st.lists(st.integers(0, 30), max_size=60))
def test_new_and_duplicate_agree_with_a_set(order):
    seen: set[int] = set()
    state = BootSequence()
    for sequence in order:
        state, arrival = state.admit(sequence, float(sequence), sequence + 1.0, NOW)
        assert (arrival is Arrival.DUPLICATE) == (sequence in seen)
        seen.add(sequence)
        missing = {s for hole in state.holes for s in range(hole.first, hole.last + 1)}
        assert missing == set(range(max(seen))) - seen
        assert state.missing == len(missing)
        assert state.high == max(seen)


@settings(deadline=None)
@given(st.permutations(range(12)))
def test_any_order_of_all_frames_leaves_no_hole(order):
    state = BootSequence()
    for sequence in order:
        state, arrival = state.admit(sequence, float(sequence), sequence + 1.0, NOW)
        assert arrival is not Arrival.DUPLICATE
    assert state.holes == ()


def test_a_hole_spans_the_time_between_its_neighbours():
    state, _ = BootSequence().admit(0, 100.0, 101.0, NOW)
    state, arrival = state.admit(4, 104.0, 105.0, NOW)
    assert arrival is Arrival.AFTER_HOLE
    (hole,) = state.holes
    assert (hole.first, hole.last, hole.started, hole.ended) == (1, 3, 101.0, 104.0)


def test_a_late_frame_splits_its_hole():
    state, _ = BootSequence().admit(0, 0.0, 1.0, NOW)
    state, _ = state.admit(4, 4.0, 5.0, NOW)
    state, arrival = state.admit(2, 2.0, 3.0, NOW)
    assert arrival is Arrival.LATE
    assert [(hole.first, hole.last) for hole in state.holes] == [(1, 1), (3, 3)]


def test_a_boot_that_starts_late_lacks_its_first_frames():
    state, arrival = BootSequence().admit(2, 50.0, 51.0, NOW)
    assert arrival is Arrival.AFTER_HOLE
    assert state.missing == 2


CLOCKS = st.sampled_from([0.0, 900.0, 990.0, 1_000.0, 1_010.0, 5_000.0])


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 30), CLOCKS), max_size=30))
def test_no_hole_ends_before_it_starts_whatever_clocks_say(frames):
    state = BootSequence()
    for sequence, started in frames:
        state, _ = state.admit(sequence, started, started + 1.0, NOW)
        assert all(hole.started <= hole.ended for hole in state.holes)


def test_a_hole_lies_beside_the_neighbour_whose_clock_is_right():
    state, _ = BootSequence().admit(9, 949.0, 950.0, NOW)
    set_back, _ = state.admit(20, 0.0, 1.0, NOW)
    assert [(hole.started, hole.ended) for hole in set_back.holes[1:]] == [(950.0, 960.0)]
    state, _ = BootSequence().admit(9, 9_000.0, 9_001.0, NOW)
    set_right, _ = state.admit(20, 990.0, 991.0, NOW)
    assert [(hole.started, hole.ended) for hole in set_right.holes[1:]] == [(980.0, 990.0)]


def test_a_hole_before_a_clock_far_ahead_ends_by_now():
    state, _ = BootSequence().admit(0, 949.0, 950.0, NOW)
    state, _ = state.admit(11, 9_000.0, 9_001.0, NOW)
    assert [(hole.started, hole.ended) for hole in state.holes] == [(950.0, NOW)]


def test_a_hole_takes_a_frame_of_its_time_alone():
    state, _ = BootSequence().admit(0, 100.0, 101.0, NOW)
    state, _ = state.admit(4, 104.0, 105.0, NOW)
    for started in (30.0, 200.0, 1_000.0):
        same, arrival = state.admit(2, started, started + 1.0, NOW)
        assert (same, arrival) == (state, Arrival.MISPLACED)
    for started in (60.0, 102.5, 150.0):
        assert state.admit(2, started, started + 1.0, NOW)[1] is Arrival.LATE


def test_first_frames_that_come_late_started_as_long_before_as_they_take():
    state, _ = BootSequence().admit(500, 900.0, 901.0, NOW)
    assert state.admit(0, 400.0, 401.0, NOW)[1] is Arrival.LATE
    assert state.admit(0, 300.0, 301.0, NOW)[1] is Arrival.MISPLACED


def test_an_engine_makes_no_more_than_ten_frames_a_second_and_a_day_of_them_may_be_late():
    day = 86_400
    assert can_have_made(10 * day, 0.0)
    assert not can_have_made(10 * day + 1, -5.0)
    assert can_have_made(20 * day, float(day))
