"""Questions to the ranks between two steps, and their answers."""

from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from engine.errors import EngineError, RefusedError
from engine.worker.messages import Answer, Ask, Question


@dataclass(slots=True)
class _Open:
    future: Future[list[Any]]
    answers: dict[int, Answer] = field(default_factory=dict)


class Questions:
    """Open questions by number; every rank answers each one."""

    def __init__(self, num_ranks: int) -> None:
        self._num_ranks = num_ranks
        self._asked = 0
        self._open: dict[int, _Open] = {}

    @property
    def any_open(self) -> bool:
        """Whether some rank still works on an answer."""
        return bool(self._open)

    def ask(self, question: Question, future: Future[list[Any]]) -> Ask:
        """The message for every rank; `future` gets the answers in rank order."""
        self._asked += 1
        self._open[self._asked] = _Open(future)
        return Ask(self._asked, question)

    def answered(self, rank: int, answer: Answer) -> None:
        """One rank's answer; the last one resolves the future."""
        entry = self._open[answer.number]
        entry.answers[rank] = answer
        if len(entry.answers) < self._num_ranks:
            return
        del self._open[answer.number]
        for each, given in sorted(entry.answers.items()):
            if given.error is not None:
                entry.future.set_exception(RefusedError(f"rank {each}: {given.error}"))
                return
        entry.future.set_result([entry.answers[each].value for each in range(self._num_ranks)])

    def fail(self, error: EngineError) -> None:
        """The engine is going down."""
        for entry in self._open.values():
            entry.future.set_exception(error)
        self._open.clear()
