"""One measured figure, with what it is held against and how to measure it again."""

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal

Compare = Literal["<=", ">="]


@dataclass(frozen=True, slots=True)
class Figure:
    """A value, its interval over n repetitions, its goal, and the command that measures it.

    Attributes:
        name: stable, read by scripts, e.g. "overhead.step_time_ratio".
        value, low, high: estimate and interval, in `unit`.
        goal, compare: `holds` is `value compare goal`; None where a figure has no goal.
        n: repetitions behind the interval.
        against: what was measured beside it in the same run, with its figure.
        command: what measures it again.
        machine: cores and processor.
    """

    name: str
    value: float
    unit: str
    goal: float | None = None
    compare: Compare | None = None
    n: int = 1
    low: float | None = None
    high: float | None = None
    against: str = ""
    command: str = ""
    machine: str = ""

    @property
    def holds(self) -> bool | None:
        """Whether the goal is met; None without a goal."""
        if self.goal is None or self.compare is None:
            return None
        return self.value <= self.goal if self.compare == "<=" else self.value >= self.goal

    def as_dict(self) -> dict[str, object]:
        """All fields and `holds`, as JSON values."""
        return {**asdict(self), "holds": self.holds}


def to_json(figures: Sequence[Figure]) -> str:
    """The figures as a JSON list, one stable shape for every benchmark."""
    return json.dumps([figure.as_dict() for figure in figures], indent=2) + "\n"


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0))


def machine() -> str:
    """Usable cores and the processor of this machine."""
    processor = platform.processor() or platform.machine()
    return f"{cores()} cores, {processor}, Python {platform.python_version()}"
