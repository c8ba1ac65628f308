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
        assert missing == set(range(min(seen), max(seen))) - seen
        assert state.first == min(seen)
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
    assert [(hole.started, hole.ended) for hole in set_back.holes] == [(950.0, 960.0)]
    state, _ = BootSequence().admit(9, 9_000.0, 9_001.0, NOW)
    set_right, _ = state.admit(20, 990.0, 991.0, NOW)
    assert [(hole.started, hole.ended) for hole in set_right.holes] == [(980.0, 990.0)]


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


def test_a_dropped_frame_that_comes_after_all_started_about_when_it_must_have():
    state, _ = BootSequence().admit(500, 900.0, 901.0, NOW)
    state = state.with_dropped(500, 1.0)
    assert state.admit(0, 400.0, 401.0, NOW)[1] is Arrival.BEFORE_FIRST
    assert state.admit(0, 300.0, 301.0, NOW)[1] is Arrival.MISPLACED


def test_an_engine_makes_no_more_than_ten_frames_a_second_and_a_day_of_them_may_be_late():
    day = 86_400
    assert can_have_made(10 * day, 0.0)
    assert not can_have_made(10 * day + 1, -5.0)
    assert can_have_made(20 * day, float(day))


def _first_seen_at_900() -> BootSequence:
    state, arrival = BootSequence().admit(900, 5000.0, 5001.0, NOW)
    assert arrival is Arrival.NEXT
    return state


def test_frames_before_the_first_that_came_are_not_missing():
    state, arrival = _first_seen_at_900().admit(901, 5001.0, 5002.0, NOW)
    assert arrival is Arrival.NEXT
    assert state.holes == ()


def test_what_the_engine_says_it_dropped_before_is_missing_with_its_time():
    state = _first_seen_at_900().with_dropped(60, 1.0)
    (hole,) = state.holes
    assert (hole.first, hole.last, hole.started, hole.ended) == (840, 899, 4940.0, 5000.0)
    assert state.with_dropped(60, 1.0) == state
    (longer,) = state.with_dropped(100, 1.0).holes
    assert (longer.first, longer.last, longer.started) == (800, 899, 4900.0)
    (whole,) = state.with_dropped(5000, 1.0).holes
    assert (whole.first, whole.last) == (0, 899)


def test_drops_that_holes_explain_are_not_counted_twice():
    state, _ = _first_seen_at_900().admit(910, 5010.0, 5011.0, NOW)
    assert state.with_dropped(9, 1.0) == state
    more = state.with_dropped(12, 1.0)
    assert [(hole.first, hole.last) for hole in more.holes] == [(897, 899), (901, 909)]


def test_an_earlier_frame_is_new_and_what_lies_between_is_missing():
    state, arrival = _first_seen_at_900().admit(897, 4997.0, 4998.0, NOW)
    assert arrival is Arrival.BEFORE_FIRST
    (hole,) = state.holes
    assert (hole.first, hole.last, hole.started, hole.ended) == (898, 899, 4998.0, 5000.0)
    again, arrival = state.admit(897, 4997.0, 4998.0, NOW)
    assert (again, arrival) == (state, Arrival.DUPLICATE)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 12)), min_size=1, max_size=40))
def test_drops_before_the_first_frame_leave_holes_sound(arrivals):
    state = BootSequence()
    seen: set[int] = set()
    for sequence, dropped in arrivals:
        state, arrival = state.admit(sequence, float(sequence), sequence + 1.0, NOW)
        assert (arrival is Arrival.DUPLICATE) == (sequence in seen)
        seen.add(sequence)
        state = state.with_dropped(dropped, 1.0)
        missing = [s for hole in state.holes for s in range(hole.first, hole.last + 1)]
        between = set(range(min(seen), max(seen))) - seen
        assert len(missing) == len(set(missing)) == state.missing
        assert missing == sorted(missing)
        assert between <= set(missing)
        assert all(s < min(seen) for s in set(missing) - between)
        assert state.missing >= min(dropped, len(between) + min(seen))
        assert all(hole.started <= hole.ended for hole in state.holes)
