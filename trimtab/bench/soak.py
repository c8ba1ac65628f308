"""A soak: 64 engines at one frame a second for half an hour; flat memory, no gap.

`python -m trimtab.bench.soak --minutes 30` prints memory and processor share every minute, and a
verdict. It exits 1 when a frame is missing, a gap is recorded, or memory grows over 10 % after the
tenth minute (shorter runs: after the middle): from the mean of the first five minutes then to that
of the last five, because a minute more or less amid its sealing is 20 MiB. Late posts are told, and
are no failure: frames carry their own time, and a machine that is busy with something else sends
them late.
"""

import json
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import click

from trimtab.bench.ingest import ENGINES
from trimtab.bench.plane import RunningPlane, frames_missing, require_stored, running_plane
from trimtab.bench.stream import Sent, Stream, wait_until
from trimtab.output_file import check_output, write_output

SETTLED_MINUTES = 10
AVERAGED_MINUTES = 5
MAX_GROWTH = 1.10


@dataclass(frozen=True, slots=True)
class Minute:
    """One minute: resident size at its end in MiB, and the share of one core."""

    rss_mb: float
    core_share: float


@click.command(epilog="Example: python -m trimtab.bench.soak --minutes 30")
@click.option("--minutes", type=click.IntRange(1, 24 * 60), default=30, show_default=True)
@click.option(
    "--json", "json_file", type=click.Path(path_type=Path), help="Also write the figures."
)
def main(minutes: int, json_file: Path | None) -> None:
    """Stream, watch memory and processor, and count what was stored."""
    check_output(json_file, "--json")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with running_plane(f"sqlite:///{folder}/soak.db", folder, ENGINES) as plane:
            seen, sent = _watched(plane, minutes)
            require_stored(plane, minutes * 60)
            gaps = frames_missing(plane)
            peak = plane.peak_rss_mb()
        size = sum(file.stat().st_size for file in folder.glob("soak.db*"))
    settled = [minute.rss_mb for minute in seen[min(SETTLED_MINUTES, (len(seen) + 1) // 2) - 1 :]]
    several = max(1, min(AVERAGED_MINUTES, len(settled) // 2))
    growth = fmean(settled[-several:]) / fmean(settled[:several])
    share = sum(minute.core_share for minute in seen) / len(seen)
    click.echo(
        f"{minutes * 60 * len(ENGINES)} frames of {len(ENGINES)} engines stored, gaps {gaps}, "
        f"{sent.late} posts over 1 s late; memory peak {peak:.0f} MiB, growth × {growth:.3f} over "
        f"the last {len(settled) - 1} min; {share:.3f} of one core; senders apart "
        f"{sent.cpu_seconds / (minutes * 60):.3f}; database {size / 2**20:.0f} MiB"
    )
    if json_file is not None:
        found = {
            "minutes": minutes, "engines": len(ENGINES), "gaps": gaps, "late": sent.late,
            "posts": sent.posts, "growth": growth, "peak_rss_mb": peak, "core_share": share,
            "rss_mb": [minute.rss_mb for minute in seen],
            "core_shares": [minute.core_share for minute in seen], "database_bytes": size,
        }  # fmt: skip
        write_output(json_file, json.dumps(found, indent=2) + "\n", "--json")
    if gaps or growth > MAX_GROWTH:
        raise SystemExit(1)


def _watched(plane: RunningPlane, minutes: int) -> tuple[list[Minute], Sent]:
    """Every minute as it ends, and how the load was held."""
    seen: list[Minute] = []
    began = time.perf_counter()
    with Stream(plane, minutes * 60) as stream:
        at, cpu = time.perf_counter(), plane.cpu_seconds()
        for number in range(1, minutes + 1):
            wait_until(began + number * 60)
            now, used = time.perf_counter(), plane.cpu_seconds()
            seen.append(Minute(plane.rss_mb(), (used - cpu) / (now - at)))
            at, cpu = now, used
            click.echo(
                f"minute {number}: {seen[-1].rss_mb:.0f} MiB, {seen[-1].core_share:.3f} of one core"
            )
        return seen, stream.finish()


if __name__ == "__main__":
    main()
