"""`trimtab demo`."""

import asyncio
import signal
import tempfile
from pathlib import Path

import click
from rich.console import Console

from trimtab.demo.narrator import Narrator
from trimtab.demo.options import CHOICES, READY_S, DemoOptions
from trimtab.demo.processes import ChildFailedError, Children
from trimtab.demo.report import RECOVERED, DemoReport, table
from trimtab.demo.site import Site
from trimtab.demo.story import DemoError, Story, wait_until_ready
from trimtab.errors import InputError
from trimtab.output_file import check_output, force_option, write_output
from trimtab.replay.trace import TraceError, read_trace


@click.command(epilog="Example: trimtab demo --fault bias-ramp --headless --report r.json")
@click.option("--headless", is_flag=True, help="No login link; end when the report is made.")
@click.option(
    "--duration",
    "linger_s",
    type=click.FloatRange(min=0),
    help="Without --headless: keep serving so many seconds after the report.",
)
@click.option("--trace", type=click.Path(path_type=Path), help="A request trace (see replay).")
@click.option("--fault", type=click.Choice(CHOICES), default="wrong-sign", show_default=True)
@click.option(
    "--report",
    "report_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the report as JSON.",
)
@click.option(
    "--keep",
    type=click.Path(path_type=Path, file_okay=False),
    help="Keep settings, database and logs in this folder.",
)
@force_option
def command(
    headless: bool, linger_s: float | None, trace: Path | None, fault: str,
    report_file: Path | None, keep: Path | None, force: bool,
) -> None:  # fmt: skip
    """Start an engine and a control plane, inject a fault, and watch the loop close.

    Exits 0 only if the loop closed.
    """
    check_output(report_file, "--report", force=force)
    if trace is not None:
        try:
            read_trace(trace)
        except TraceError as error:
            raise InputError(f"{error}. Nothing was started.") from None
    with tempfile.TemporaryDirectory(prefix="trimtab-demo-") as scratch:
        options = DemoOptions(fault, headless, linger_s, trace, keep or Path(scratch))
        try:
            report = asyncio.run(_run(options, Console()))
        except (ChildFailedError, DemoError) as error:
            raise click.ClickException(str(error)) from None
        except (KeyboardInterrupt, asyncio.CancelledError):
            raise click.Abort from None
        if report_file is not None:
            write_output(report_file, report.to_json(), "--report", force=force)
    raise SystemExit(0 if report.verdict == RECOVERED else 1)


async def _run(options: DemoOptions, console: Console) -> DemoReport:
    task = asyncio.current_task()
    if task is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    narrator = Narrator(console)
    site = Site(options.folder.resolve())
    site.write()
    with Children(site.folder / "logs") as children:
        narrator.title("start")
        narrator.say("Starting the control plane, and an engine with two expert-parallel ranks.")
        children.start_trimtab("control", ["serve", "--config", str(site.control_file)])
        children.start_trimtab("engine", ["engine", "--config", str(site.engine_file)])
        await wait_until_ready(site, children, READY_S)
        story = Story(site, options, children, narrator)
        if not options.headless:
            console.print(f"Watch it (one-time login): {await story.login_link()}")
        report = await story.play()
        console.print(table(report))
        console.print(f"Verdict: [bold]{report.verdict}[/bold]")
        if not options.headless:
            await _linger(options.linger_s, children, console)
        return report


async def _linger(seconds: float | None, children: Children, console: Console) -> None:
    console.print(
        "Still serving; Ctrl-C ends it." if seconds is None else f"Serving {seconds:g} s."
    )
    waited = 0.0
    while seconds is None or waited < seconds:
        children.check()
        await asyncio.sleep(0.5)
        waited += 0.5
