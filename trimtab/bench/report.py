"""Figures as a terminal table and as the page `docs/benchmarks.md`."""

from collections.abc import Mapping, Sequence

from rich.markup import escape
from rich.table import Table

from trimtab.bench.figure import Figure

_WORD = {True: "holds", False: "MISSED", None: "-"}


def table(title: str, figures: Sequence[Figure]) -> Table:
    """One benchmark in the terminal: two lines a figure or more, so that 80 columns hold it."""
    view = Table(title=title, show_lines=True)
    view.add_column("figure, and what it is held against", overflow="fold", ratio=1)
    view.add_column("value", no_wrap=True)
    view.add_column("goal", no_wrap=True)
    for figure in figures:
        value = f"{_number(figure.value)} {figure.unit}"
        goal = "" if figure.goal is None else f"{_goal(figure)}\n{_WORD[figure.holds]}"
        interval = "" if figure.low is None else f"\n{_interval(figure)}"
        against = f"\n{escape(figure.against)}" if figure.against else ""
        view.add_row(f"[bold]{escape(figure.name)}[/]{against}", value + interval, goal)
    return view


def page(results: Mapping[str, Sequence[Figure]]) -> str:
    """The markdown page of all benchmarks that ran."""
    lines = ["# Benchmarks", ""]
    for name, figures in results.items():
        if not figures:
            continue
        lines += [
            f"## {name}",
            "",
            f"`{figures[0].command}` on {figures[0].machine}",
            "",
            "| figure | value | interval (n) | unit | goal | | against |",
            "|---|---|---|---|---|---|---|",
        ]
        lines += [
            f"| `{f.name}` | {_number(f.value)} | {_interval(f)} ({f.n}) | {f.unit} | {_goal(f)} "
            f"| {_WORD[f.holds]} | {f.against} |"
            for f in figures
        ]
        lines.append("")
    return "\n".join(lines)


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.4g}"


def _interval(figure: Figure) -> str:
    if figure.low is None or figure.high is None:
        return "-"
    return f"{_number(figure.low)} … {_number(figure.high)}"


def _goal(figure: Figure) -> str:
    return "-" if figure.goal is None else f"{figure.compare} {_number(figure.goal)}"
