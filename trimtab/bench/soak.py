"""A soak: 64 engines at one frame a second for half an hour; flat memory, no gap.

`python -m trimtab.bench.soak --minutes 30` prints memory every minute and a verdict. It exits 1
when a frame is missing, a gap is recorded, or memory grows over 10 % after the tenth minute.
"""

import json
import tempfile
import time
from pathlib import Path

import click

from trimtab.bench.ingest import ENGINES
from trimtab.bench.plane import RunningPlane, require_stored, running_plane
from trimtab.bench.stream import Stream, wait_until

SETTLED_MINUTES = 10
MAX_GROWTH = 1.10


@click.command(epilog="Example: python -m trimtab.bench.soak --minutes 30")
@click.option("--minutes", type=click.IntRange(1, 24 * 60), default=30, show_default=True)
def main(minutes: int) -> None:
    """Stream, watch the memory, and count what was stored."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with running_plane(f"sqlite:///{folder}/soak.db", folder, ENGINES) as plane:
            sizes = _watched(plane, minutes)
            require_stored(plane, minutes * 60)
            gaps = _gaps(plane)
    settled = sizes[min(SETTLED_MINUTES, len(sizes)) - 1 :]
    growth = settled[-1] / settled[0]
    click.echo(f"frames {minutes * 60 * len(ENGINES)}, gaps {gaps}, memory × {growth:.3f}")
    if gaps or growth > MAX_GROWTH:
        raise SystemExit(1)


def _watched(plane: RunningPlane, minutes: int) -> list[float]:
    """Resident size in MiB at the end of every minute."""
    sizes: list[float] = []
    began = time.perf_counter()
    with Stream(plane, minutes * 60) as stream:
        for minute in range(1, minutes + 1):
            wait_until(began + minute * 60)
            sizes.append(plane.rss_mb())
            click.echo(f"minute {minute}: {sizes[-1]:.0f} MiB")
        stream.finish()
    return sizes


def _gaps(plane: RunningPlane) -> int:
    end = time.time()  # noqa: TID251 - a benchmark uses the wall clock
    start = end - 7 * 86_400
    missing = 0
    for engine in ENGINES:
        status, body = plane.get(f"/api/v1/engines/{engine}/gaps?start={start}&end={end}")
        if status != 200:
            raise RuntimeError(f"gaps of {engine}: the control plane answered {status}")
        missing += int(json.loads(body)["frames_missing"])
    return missing


if __name__ == "__main__":
    main()
