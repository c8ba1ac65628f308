"""Figures as a terminal table and as the page `docs/benchmarks.md`."""

from collections.abc import Mapping, Sequence

from rich.table import Table

from trimtab.bench.figure import Figure

_WORD = {True: "holds", False: "MISSED", None: "-"}


def table(title: str, figures: Sequence[Figure]) -> Table:
    """One benchmark in the terminal."""
    view = Table(title=title)
    view.add_column("figure", no_wrap=True)
    for heading in ("value", "interval", "unit", "goal", "", "against"):
        view.add_column(heading)
    for figure in figures:
        view.add_row(
            figure.name, _number(figure.value), _interval(figure), figure.unit, _goal(figure),
            _WORD[figure.holds], figure.against,
        )  # fmt: skip
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
