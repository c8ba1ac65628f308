"""`trimtab bench`."""

from pathlib import Path

import click
from rich.console import Console

from trimtab.bench import registry, report
from trimtab.bench.figure import Figure, to_json
from trimtab.output_file import check_output, force_option, write_output

_PAGE = Path("docs/benchmarks.md")


@click.command(epilog="Example: trimtab bench overhead --json overhead.json")
@click.argument("name", type=click.Choice(["all", *sorted(registry.BENCHMARKS)]))
@click.option(
    "--json",
    "json_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the figures as a JSON list.",
)
@click.option(
    "--page",
    type=click.Path(path_type=Path, dir_okay=False),
    default=_PAGE,
    show_default=True,
    help="Page that `all` writes, anew where it is there.",
)
@force_option
def command(name: str, json_file: Path | None, page: Path, *, force: bool) -> None:
    """Measure one part of Trimtab; `all` runs every benchmark and writes a page."""
    check_output(json_file, "--json", force=force)
    if name == "all":
        page.parent.mkdir(parents=True, exist_ok=True)
        check_output(page, "--page", force=True)
    console = Console()
    names = sorted(registry.BENCHMARKS) if name == "all" else [name]
    results: dict[str, list[Figure]] = {}
    for each in names:
        console.rule(f"bench {each}")
        results[each] = registry.run(each)
        console.print(report.table(each, results[each]))
    if json_file is not None:
        text = to_json([f for figures in results.values() for f in figures])
        write_output(json_file, text, "--json", force=force)
    if name == "all":
        write_output(page, report.page(results), "--page", force=True)
        console.print(f"wrote {page}")
