"""Sequences of a boot against an obvious model: the set of what has come."""

from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.history.sequence import Arrival, BootSequence


@settings(deadline=None)
@given(st.lists(st.integers(0, 30), max_size=60))
def test_new_and_duplicate_agree_with_a_set(order):
    seen: set[int] = set()
    state = BootSequence()
    for sequence in order:
        state, arrival = state.admit(sequence, float(sequence), sequence + 1.0)
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
        state, arrival = state.admit(sequence, float(sequence), sequence + 1.0)
        assert arrival is not Arrival.DUPLICATE
    assert state.holes == ()


def test_a_hole_spans_the_time_between_its_neighbours():
    state, _ = BootSequence().admit(0, 100.0, 101.0)
    state, arrival = state.admit(4, 104.0, 105.0)
    assert arrival is Arrival.AFTER_HOLE
    (hole,) = state.holes
    assert (hole.first, hole.last, hole.started, hole.ended) == (1, 3, 101.0, 104.0)


def test_a_late_frame_splits_its_hole():
    state, _ = BootSequence().admit(0, 0.0, 1.0)
    state, _ = state.admit(4, 4.0, 5.0)
    state, arrival = state.admit(2, 2.0, 3.0)
    assert arrival is Arrival.LATE
    assert [(hole.first, hole.last) for hole in state.holes] == [(1, 1), (3, 3)]


def _first_seen_at_900() -> BootSequence:
    state, arrival = BootSequence().admit(900, 5000.0, 5001.0)
    assert arrival is Arrival.NEXT
    return state


def test_frames_before_the_first_that_came_are_not_missing():
    state, arrival = _first_seen_at_900().admit(901, 5001.0, 5002.0)
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
    state, _ = _first_seen_at_900().admit(910, 5010.0, 5011.0)
    assert state.with_dropped(9, 1.0) == state
    more = state.with_dropped(12, 1.0)
    assert [(hole.first, hole.last) for hole in more.holes] == [(897, 899), (901, 909)]


def test_an_earlier_frame_is_new_and_what_lies_between_is_missing():
    state, arrival = _first_seen_at_900().admit(897, 4997.0, 4998.0)
    assert arrival is Arrival.BEFORE_FIRST
    (hole,) = state.holes
    assert (hole.first, hole.last, hole.started, hole.ended) == (898, 899, 4998.0, 5000.0)
    again, arrival = state.admit(897, 4997.0, 4998.0)
    assert (again, arrival) == (state, Arrival.DUPLICATE)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 12)), min_size=1, max_size=40))
def test_drops_before_the_first_frame_leave_holes_sound(arrivals):
    state = BootSequence()
    seen: set[int] = set()
    for sequence, dropped in arrivals:
        state, arrival = state.admit(sequence, float(sequence), sequence + 1.0)
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
