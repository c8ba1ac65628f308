"""`trimtab history`: stored history as Parquet, for notebooks."""

import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import click
import numpy as np
from sqlalchemy import select
from sqlalchemy.orm import Session

from controlplane.clock import SystemClock
from controlplane.db.database import Database
from controlplane.errors import InvalidInputError
from controlplane.history.history import History
from controlplane.history.models import ConfigChange, EngineBoot
from controlplane.history.series import LAYER_COLUMNS, layer_rows
from controlplane.history.tiers import Span, checked_span
from controlplane.history.window import EngineWindow
from trimtab.commands.options import config_option, opened_database
from trimtab.history_file import LAYERS, LOADS, Columns, Written, write
from trimtab.output_file import check_output, force_option

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
    type=click.Choice([LOADS, LAYERS]),
    default=LOADS,
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
    """Write loads (one row an interval, phase, layer and expert) or layers as Parquet.

    Only whole stored intervals are written: all that touch the span, except the newest minute (or
    hour) that is not summed yet. --tier 1 has every frame. What was written is said at the end.

    Both tables have t0 (start, timestamp[us, tz=UTC]), seconds (length of the interval), engine
    (dictionary) and layer. loads: phase (dictionary), expert, assignments (before capacity).
    layers: assignments, load_cv_ratio and the other columns of /api/v1/engines/ID/layers, times in
    seconds. The file's metadata: trimtab.engine, .table, .tier (seconds), .model,
    .config_generations (those in force in the span), .start and .end (as asked for, ISO 8601).
    """
    check_output(out, "--out", force=force)
    with opened_database(config) as (settings, database):
        span = checked_span(_moment(start, "start"), _moment(end, "end"))
        history = History(database, settings.history, SystemClock())
        if engine not in history.engine_ids():
            raise InvalidInputError(f"engine {engine!r} has sent no frame", field="engine")
        if table == LAYERS:
            batches = _layers(database, engine, span, tier)
        else:
            batches = (_loads(window) for window in _intervals(history, engine, span, int(tier)))
        with database.read() as session:
            told = _told(session, engine, span)
        written = write(
            out, batches, table=table, metadata={**told, "table": table, "tier": tier}, force=force
        )
    click.echo(f"{written.rows} rows -> {out}")
    click.echo(_coverage(written, span, tier))


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


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z")


def _coverage(written: Written, asked: Span, tier: str) -> str:
    """What the file covers, and why that is not what was asked for."""
    said = f"covers {_iso(written.start)} to {_iso(written.end)} in intervals of {tier} s"
    if written.end < asked.end:
        later = "no frame" if tier == FRAMES else "nothing"
        said += f"; {later} is stored for the time from there to {_iso(asked.end)}"
        said += "" if tier == FRAMES else " (the newest frames are summed later: --tier 1 has them)"
    if written.start < asked.start:
        said += "; intervals are whole, so the first begins before the start"
    return said


def _told(session: Session, engine: str, span: Span) -> dict[str, str]:
    """What the file says of itself: engine, model, generations in force, and the span."""
    header = session.scalar(
        select(EngineBoot.header)
        .where(EngineBoot.engine_id == engine, EngineBoot.first_started < span.end)
        .order_by(EngineBoot.last_ordinal.desc())
        .limit(1)
    )
    before = session.scalar(
        select(ConfigChange.generation)
        .where(ConfigChange.engine_id == engine, ConfigChange.at <= span.start)
        .order_by(ConfigChange.at.desc(), ConfigChange.id.desc())
        .limit(1)
    )
    within = session.scalars(
        select(ConfigChange.generation).where(
            ConfigChange.engine_id == engine, ConfigChange.at > span.start,
            ConfigChange.at < span.end,
        )
    )  # fmt: skip
    generations = {*within} | (set() if before is None else {before})
    return {
        "engine": engine, "model": "" if header is None else str(header.get("model", "")),
        "config_generations": ",".join(str(each) for each in sorted(generations)),
        "start": _iso(span.start), "end": _iso(span.end),
    }  # fmt: skip


def _intervals(history: History, engine: str, span: Span, tier: int) -> Iterator[EngineWindow]:
    """Stored intervals of the span, oldest first; frames become windows of one frame."""
    if tier == int(FRAMES):
        minutes = history.minutes(engine, span.start, span.end)
        with click.progressbar(minutes, label="minutes", file=sys.stderr) as shown:
            yield from history.each_frame(engine, span.start, span.end, shown)
    else:
        yield from history.each_rollup(engine, span, tier, only=("assignments",))


def _loads(window: EngineWindow) -> Columns:
    loads = window.arrays.get("assignments")
    if loads is None:
        return {"start": (), "seconds": ()}
    phase, layer, expert = np.meshgrid(*(np.arange(size) for size in loads.shape), indexing="ij")
    return {
        "start": np.full(loads.size, window.start),
        "seconds": np.full(loads.size, round(window.end - window.start, 6)),
        "phase": phase.ravel().astype(np.int32),
        "layer": layer.ravel().astype(np.int32),
        "expert": expert.ravel().astype(np.int32),
        "assignments": loads.ravel().astype(np.int64),
    }


def _layers(database: Database, engine: str, span: Span, tier: str) -> Iterator[Columns]:
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
        found = {name: [row[name] for row in rows] for name in rows[0]}
        yield {**found, "start": found["t0"], "seconds": np.full(len(rows), float(tier))}
        after = (rows[-1]["layer"], rows[-1]["t0"])
