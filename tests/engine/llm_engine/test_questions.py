from concurrent.futures import Future
from typing import Any

import pytest

from engine.errors import NotReadyError, RefusedError
from engine.llm_engine.questions import Questions
from engine.worker.messages import Answer, ReadBias


def test_answers_come_back_in_rank_order():
    questions = Questions(2)
    future: Future[list[Any]] = Future()
    ask = questions.ask(ReadBias(), future)
    questions.answered(1, Answer(ask.number, value="one"))
    assert questions.any_open
    questions.answered(0, Answer(ask.number, value="zero"))
    assert future.result(0) == ["zero", "one"]
    assert not questions.any_open


def test_a_rank_that_cannot_answer_is_named():
    questions = Questions(2)
    future: Future[list[Any]] = Future()
    ask = questions.ask(ReadBias(), future)
    questions.answered(0, Answer(ask.number))
    questions.answered(1, Answer(ask.number, error="nothing was sampled"))
    with pytest.raises(RefusedError, match="rank 1: nothing was sampled"):
        future.result(0)


def test_a_failing_engine_answers_every_question():
    questions = Questions(2)
    future: Future[list[Any]] = Future()
    questions.ask(ReadBias(), future)
    questions.fail(NotReadyError("rank 0 died"))
    with pytest.raises(NotReadyError, match="rank 0 died"):
        future.result(0)
    assert not questions.any_open
