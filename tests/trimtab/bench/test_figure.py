import json

import pytest

from trimtab.bench.figure import Figure, to_json
from trimtab.bench.report import page


@pytest.mark.parametrize(
    ("value", "compare", "holds"),
    [(1.01, "<=", True), (1.02, "<=", False), (2.0, ">=", True), (1.0, ">=", False)],
)
def test_a_figure_is_held_against_its_goal(value: float, compare: str, holds: bool) -> None:
    goal = 1.01
    figure = Figure("a.b", value, "ratio", goal=goal, compare=compare)  # type: ignore[arg-type]
    assert figure.holds is holds


def test_a_figure_without_a_goal_neither_holds_nor_fails() -> None:
    assert Figure("a.b", 3.0, "s").holds is None


def test_the_json_has_every_field_that_scripts_read() -> None:
    (row,) = json.loads(to_json([Figure("a.b", 3.0, "s", command="trimtab bench a")]))
    assert set(row) == {
        "name", "value", "unit", "goal", "compare", "holds", "n", "low", "high", "against",
        "command", "machine",
    }  # fmt: skip


def test_the_page_shows_a_missed_goal_as_missed() -> None:
    text = page({"a": [Figure("a.b", 3.0, "s", goal=1.0, compare="<=", command="trimtab bench a")]})
    assert "MISSED" in text
    assert "`trimtab bench a`" in text
