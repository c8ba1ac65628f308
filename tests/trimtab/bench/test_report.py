"""Figures as they are shown."""

from io import StringIO

from rich.console import Console

from trimtab.bench import report
from trimtab.bench.figure import Figure

FIGURE = Figure(
    name="ingest.sqlite.sealed_counts_per_s_of_a_long_name_that_has_no_spaces_in_it",
    value=54_377_179, unit="1/s", goal=20e6, compare=">=", low=50e6, high=60e6,
    against="a row per count [in SQLite] 558,103/s; " * 3,
)  # fmt: skip


def _shown(figure: Figure, width: int) -> str:
    out = StringIO()
    Console(file=out, width=width).print(report.table("ingest", [figure]))
    return out.getvalue()


def test_a_narrow_terminal_cuts_nothing_off():
    shown = _shown(FIGURE, 80)
    for text in ("54,377,179 1/s", "50,000,000 … 60,000,000", ">= 20,000,000", "holds"):
        assert text in shown
    assert "[in SQLite]" in shown
    cells = "".join(line.split("│")[1].strip() for line in shown.splitlines() if "│" in line)
    assert FIGURE.name in cells


def test_a_figure_without_goal_or_interval_says_none():
    shown = _shown(Figure(name="x", value=0.1, unit="s"), 80)
    assert "0.1 s" in shown
    assert "holds" not in shown
    assert "None" not in shown


def test_a_missed_goal_is_said():
    assert "MISSED" in _shown(Figure(name="x", value=2, unit="s", goal=1, compare="<="), 80)
