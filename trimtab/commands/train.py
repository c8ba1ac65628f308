"""`trimtab train`."""

import math
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from trimtab.errors import InputError

if TYPE_CHECKING:
    from engine.model.training.evaluation import Evaluation
    from engine.model.training.trainer import StepReport

_DEFAULT_OUT = Path("var/reference")
_DEFAULT_STEPS = 4500
_SMOOTHING = 0.98


@click.command(epilog="Example: trimtab train --out var/reference --minutes 10")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=_DEFAULT_OUT,
    show_default=True,
    help="Folder of the checkpoint.",
)
@click.option(
    "--steps",
    type=click.IntRange(min=1),
    default=_DEFAULT_STEPS,
    show_default=True,
    help="Optimiser steps of 2,048 tokens.",
)
@click.option(
    "--minutes",
    type=click.FloatRange(min=0, min_open=True),
    help="Stop training after this long; the schedule then follows the clock.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Weights and text drawn.")
@click.option("--force", is_flag=True, help="Write into a folder that holds something already.")
def command(out: Path, steps: int, minutes: float | None, seed: int, *, force: bool) -> None:
    """Train the reference checkpoint from the interpreter's standard library text."""
    from engine.errors import EngineError
    from engine.model.training.recipe import Recipe
    from engine.model.training.run import train_checkpoint
    from engine.model.training.shape import Shape

    console = Console()
    recipe = Recipe(steps=steps, minutes=minutes, seed=seed)
    limit = "" if minutes is None else f" --minutes {minutes:g}"
    _create(out, force=force)
    try:
        with _progress(console) as progress:
            bar = _Bar(progress)
            evaluation = train_checkpoint(
                recipe,
                Shape(),
                out,
                command=f"trimtab train --steps {steps}{limit} --seed {seed}",
                report=bar.advance,
                begin_evaluation=bar.begin_evaluation,
            )
    except EngineError as error:
        raise click.ClickException(error.detail) from None
    console.print(_table(evaluation))
    console.print(f"wrote {out}")


def _create(out: Path, *, force: bool) -> None:
    """Fail before ten minutes of training, not after; what is there is not trained over unasked."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        is_empty = next(out.iterdir(), None) is None
    except OSError as error:
        raise InputError(f"--out {out} cannot be created: {error.strerror}") from None
    if not (is_empty or force):
        raise InputError(f"--out {out} is not empty: choose another folder, or --force")


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"),
        TimeElapsedColumn(), TimeRemainingColumn(), TextColumn("{task.fields[note]}"),
        console=console,
    )  # fmt: skip


class _Bar:
    """The progress of a run; its note is the running loss in bits per byte."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task = progress.add_task("reading text", total=1.0, note="")
        self._bits: float | None = None

    def advance(self, report: "StepReport") -> None:
        bits = report.loss / math.log(2)
        last = bits if self._bits is None else self._bits
        self._bits = _SMOOTHING * last + (1 - _SMOOTHING) * bits
        self._progress.update(
            self._task, description="training", completed=report.progress,
            note=f"step {report.step}, {self._bits:.3f} bits per byte",
        )  # fmt: skip

    def begin_evaluation(self) -> None:
        self._progress.update(self._task, description="measuring on held-out text")


def _table(evaluation: "Evaluation") -> Table:
    table = Table("domain", "bytes held out", "bits per byte", "zlib -9", "load CV by layer")
    for name, each in evaluation.domains.items():
        table.add_row(
            name, f"{each.bytes:,}", f"{each.bits_per_byte:.3f}", f"{each.zlib_bits_per_byte:.3f}",
            " ".join(f"{value:.2f}" for value in each.load_cv),
        )  # fmt: skip
    return table
