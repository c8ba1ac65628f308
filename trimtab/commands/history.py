"""`trimtab history`: stored history as Parquet, for notebooks."""

import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import numpy as np

from contract.frame import PHASES
from controlplane.clock import SystemClock
from controlplane.db.database import Database
from controlplane.errors import InvalidInputError
from controlplane.history.history import History
from controlplane.history.series import LAYER_COLUMNS, layer_rows
from controlplane.history.tiers import Span, checked_span
from controlplane.history.window import EngineWindow
from trimtab.commands.options import config_option, opened_database
from trimtab.errors import InputError
from trimtab.output_file import check_output, force_option, output_file

FRAMES = "1"
LAYERS_PAGE = 20_000


@click.group(
    epilog="Example: trimtab history export --engine e0 --start 2026-11-29T12:00 "
    "--end 2026-11-29T13:00 --out loads.parquet"
)
def command() -> None:
    """Export stored history for notebooks."""


@command.command(
    epilog="Example: trimtab history export --engine e0 --table loads --tier 60 "
    "--start 2026-11-29T12:00 --end 2026-11-29T13:00 --out loads.parquet"
)
@config_option
@click.option("--engine", required=True, help="Engine id.")
@click.option(
    "--table",
    type=click.Choice(["loads", "layers"]),
    default="loads",
    show_default=True,
    help="Expert loads, or one row a layer.",
)
@click.option(
    "--tier",
    type=click.Choice([FRAMES, "10", "60", "3600"]),
    default="60",
    show_default=True,
    help="Seconds of a row's interval; 1 is frames.",
)
@click.option("--start", required=True, help="Start, ISO 8601 in UTC, or unix seconds.")
@click.option("--end", required=True, help="End, ISO 8601 in UTC, or unix seconds.")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="File to write.")
@force_option
def export(
    config: Path | None, engine: str, table: str, tier: str, start: str, end: str, out: Path,
    force: bool,
) -> None:  # fmt: skip
    """Write loads (one row an interval, phase, layer and expert) or layers as Parquet."""
    check_output(out, "--out", force=force)
    with opened_database(config) as (settings, database):
        span = checked_span(_moment(start, "start"), _moment(end, "end"))
        history = History(database, settings.history, SystemClock())
        if engine not in history.engine_ids():
            raise InvalidInputError(f"engine {engine!r} has sent no frame", field="engine")
        if table == "layers":
            batches = _layers(database, engine, span, tier)
        else:
            batches = (_loads(window) for window in _intervals(history, engine, span, int(tier)))
        rows = _write(out, batches, force=force)
    click.echo(f"{rows} rows -> {out}")


def _moment(text: str, name: str) -> float:
    try:
        return float(text)
    except ValueError:
        pass
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInputError(
            f"--{name} {text!r} is neither ISO 8601 nor unix seconds", field=name, value=text
        ) from None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def _intervals(history: History, engine: str, span: Span, tier: int) -> Iterator[EngineWindow]:
    """Stored intervals of the span, oldest first; frames become windows of one frame."""
    if tier == int(FRAMES):
        minutes = history.minutes(engine, span.start, span.end)
        with click.progressbar(minutes, label="minutes", file=sys.stderr) as shown:
            yield from history.each_frame(engine, span.start, span.end, shown)
    else:
        yield from history.each_rollup(engine, span, tier, only=("assignments",))


def _loads(window: EngineWindow) -> dict[str, Any]:
    loads = window.arrays.get("assignments")
    if loads is None:
        return {}
    phase, layer, expert = np.meshgrid(*(np.arange(size) for size in loads.shape), indexing="ij")
    return {
        "t0": np.full(loads.size, window.start),
        "seconds": np.full(loads.size, window.end - window.start),
        "phase": np.array(PHASES)[phase.ravel()],
        "layer": layer.ravel().astype(np.int32),
        "expert": expert.ravel().astype(np.int32),
        "assignments": loads.ravel().astype(np.int64),
    }


def _layers(database: Database, engine: str, span: Span, tier: str) -> Iterator[dict[str, Any]]:
    if tier not in ("60", "3600"):
        raise InvalidInputError(
            f"layers are stored every 60 and 3600 s, not every {tier}", field="tier", value=tier,
            bound=["60", "3600"],
        )  # fmt: skip
    after: tuple[int, int] | None = None
    while True:
        with database.read() as session:
            rows = layer_rows(
                session, engine, span, tier=int(tier), layers=(), columns=LAYER_COLUMNS,
                after=after, limit=LAYERS_PAGE,
            )  # fmt: skip
        if not rows:
            return
        yield {name: [row[name] for row in rows] for name in rows[0]}
        after = (rows[-1]["layer"], rows[-1]["t0"])


def _write(out: Path, batches: Iterator[dict[str, Any]], *, force: bool) -> int:
    """Write batches of columns; the file appears under its name only when it is whole."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise InputError("the export needs pyarrow: pip install 'trimtab[tools]'") from None
    with output_file(out, "--out", force=force) as unfinished:
        return _write_batches(pa, pq, unfinished, batches)


def _write_batches(pa: Any, pq: Any, file: Path, batches: Iterator[dict[str, Any]]) -> int:
    writer = None
    rows = 0
    try:
        for batch in batches:
            if not batch:
                continue
            found = pa.table(batch, schema=None if writer is None else writer.schema)
            if writer is None:
                found = found.cast(_nullable(pa, found.schema))
                writer = pq.ParquetWriter(file, found.schema, compression="zstd")
            writer.write_table(found)
            rows += found.num_rows
    finally:
        if writer is not None:
            writer.close()
    if writer is None:
        raise InputError("nothing is stored in this span")
    return rows


def _nullable(pa: Any, schema: Any) -> Any:
    """A column that is all empty in the first batch holds numbers later."""
    return pa.schema(
        [
            pa.field(field.name, pa.float64() if pa.types.is_null(field.type) else field.type)
            for field in schema
        ]
    )
