from engine.llm_engine.liveness import Liveness


def make_liveness(num_ranks: int = 2) -> Liveness:
    liveness = Liveness(num_ranks, watchdog_seconds=4.0)
    for rank in range(num_ranks):
        liveness.heard(rank, 0.0)
    return liveness


def test_beating_ranks_are_well():
    liveness = make_liveness()
    assert liveness.failure(3.9) is None
    assert liveness.seconds_left(1.0) == 3.0


def test_nothing_is_said_of_a_rank_that_has_not_come_up():
    assert Liveness(2, 4.0).failure(100.0) is None
    assert Liveness(2, 4.0).seconds_left(100.0) == 4.0


def test_the_silent_rank_is_named_not_the_one_that_waits_for_it():
    liveness = make_liveness()
    liveness.step_started(1.0)
    liveness.heard(0, 4.5)
    failure = liveness.failure(5.0)
    assert failure == (1, "rank 1 has not answered for 5.0 s")


def test_a_step_that_does_not_end_fails_though_every_rank_beats():
    liveness = make_liveness()
    liveness.step_started(1.0)
    liveness.step_finished(0)
    for rank in (0, 1):
        liveness.heard(rank, 4.9)
    assert liveness.failure(4.9) is None
    assert liveness.failure(5.0) == (1, "rank 1 has not finished its step for 4.0 s")


def test_a_question_stops_the_clock_of_the_step():
    liveness = make_liveness()
    liveness.step_started(1.0)
    liveness.heard(0, 9.0)
    liveness.heard(1, 9.0)
    assert liveness.failure(9.0, step_clock=False) is None
    liveness.step_clock_restarts(9.0)
    assert liveness.failure(10.0) is None


def test_a_finished_step_has_no_deadline():
    liveness = make_liveness()
    liveness.step_started(1.0)
    for rank in (0, 1):
        liveness.step_finished(rank)
        liveness.heard(rank, 9.0)
    liveness.step_clock_restarts(9.0)
    assert liveness.failure(12.0) is None
