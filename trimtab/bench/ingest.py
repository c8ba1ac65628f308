"""`trimtab bench ingest`: frames over real HTTP into a durable database, as fast as it takes them.

Throughput: 64 engines' frames in requests of 16, until a fixed number is durable: read, inflate,
check, decode, store, fsync. Sealing (chunks, rollups, layer rows) waits while frames come in
faster than they are stored, as it does when a fleet sends what it buffered; the rate until all is
sealed stands beside it, without a goal. Senders are a process of their own. Fleet: 64 decode
engines at one frame a second (950,272 loads a second), sealing included; the share of one core and
the peak memory of the process. Beside them: a row per count in SQLite, and Prometheus where it is
installed.
"""

import math
import os
import sqlite3
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from sqlalchemy import func, select

from controlplane.db.database import open_database
from controlplane.history.models import LoadRing
from trimtab.bench import postgresql_cluster, prometheus_beside
from trimtab.bench.figure import Figure
from trimtab.bench.plane import (
    FrameMaker,
    RunningPlane,
    Sender,
    in_threads,
    require_stored,
    running_plane,
    stolen_seconds,
)
from trimtab.bench.reference_load import LOAD_COUNTS
from trimtab.bench.stream import Sent, Stream, require_on_time, wait_until

ENGINES = tuple(f"e{i:02d}" for i in range(64))
FRAMES_EACH = 96
BATCH = 16
SENDERS = 8
FLEET_MINUTES = 5
SETTLE_SECONDS = 20
HALF_PAST = 30
"""Second of the minute at which the fleet's figure begins and ends: minutes are sealed in the first
twenty, so as many of them are sealed within as there are."""
COUNTS_A_FRAME = 2 * LOAD_COUNTS
ROW_COUNTS = 300_000
SEAL_SECONDS = 300


def run() -> list[Figure]:
    """Throughput into SQLite and, where it is installed, PostgreSQL; then the fleet at 1 Hz."""
    rows = _row_per_count()
    bodies = _bodies(FrameMaker())
    figures = [rows, *_throughput("sqlite", bodies, 20e6, rows)]
    if postgresql_cluster.binaries() is not None:
        figures += _throughput("postgresql", bodies, 10e6, rows)
    return figures + _fleet() + prometheus_beside.run()


def _bodies(maker: FrameMaker) -> dict[str, list[bytes]]:
    """Requests of every engine. Minutes long past: they are sealed while others still arrive."""
    start = (time.time() - 7200) // 60 * 60  # noqa: TID251 - a benchmark uses the wall clock
    return {
        engine: [
            maker.request(engine, first, BATCH, start) for first in range(0, FRAMES_EACH, BATCH)
        ]
        for engine in ENGINES
    }


@contextmanager
def _database(kind: str, folder: Path) -> Iterator[str]:
    if kind == "sqlite":
        yield f"sqlite:///{folder}/bench.db"
        return
    with postgresql_cluster.cluster(fsync=True) as server:
        yield server.new_database()


def _throughput(
    kind: str, bodies: dict[str, list[bytes]], goal: float, rows: Figure
) -> list[Figure]:
    with (
        tempfile.TemporaryDirectory() as name,
        _database(kind, Path(name)) as url,
        running_plane(url, Path(name), ENGINES) as plane,
    ):
        began, cpu, own = time.perf_counter(), plane.cpu_seconds(), time.process_time()
        _send_all(plane, bodies)
        seconds = time.perf_counter() - began
        cpu, own = plane.cpu_seconds() - cpu, time.process_time() - own
        require_stored(plane, FRAMES_EACH)
        _wait_until_sealed(url)
        sealed = time.perf_counter() - began
    frames = len(ENGINES) * FRAMES_EACH
    counts = frames * COUNTS_A_FRAME
    return [
        Figure(
            name=f"ingest.{kind}.counts_per_s", value=counts / seconds, unit="1/s", goal=goal,
            compare=">=", n=frames,
            against=f"a row per count in SQLite {rows.value:,.0f}/s; {cpu / seconds:.2f} cores; "
            f"senders {own / seconds:.2f} cores apart, on the same machine",
        ),
        Figure(
            name=f"ingest.{kind}.sealed_counts_per_s", value=counts / sealed, unit="1/s", n=frames,
            against="the same, until all of it is sealed and summed too",
        ),
    ]  # fmt: skip


def _wait_until_sealed(url: str) -> None:
    """Wait for chunks, rollups and layer rows of everything; the job runs every 5 s.

    Raises:
        TimeoutError: that took over five minutes.
    """
    database = open_database(url)
    deadline = time.perf_counter() + SEAL_SECONDS
    try:
        while time.perf_counter() < deadline:
            with database.read() as session:
                if not session.scalar(select(func.count()).where(~LoadRing.sealed)):
                    return
            wait_until(time.perf_counter() + 0.2)
    finally:
        database.close()
    raise TimeoutError(f"frames were not sealed within {SEAL_SECONDS} s: no figure")


def _send_all(plane: RunningPlane, bodies: dict[str, list[bytes]]) -> None:
    def send(engines: Sequence[str]) -> None:
        sender = Sender(plane)
        for index in range(FRAMES_EACH // BATCH):
            for engine in engines:
                while (status := sender.post(engine, bodies[engine][index])) in (429, 503):
                    threading.Event().wait(0.05)
                if status != 200:
                    raise RuntimeError(f"the control plane answered {status} to {engine}")
        sender.close()

    in_threads([ENGINES[i::SENDERS] for i in range(SENDERS)], send)


def _fleet() -> list[Figure]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with running_plane(f"sqlite:///{folder}/bench.db", folder, ENGINES) as plane:
            shares, sent, stolen = _one_hertz(plane, FLEET_MINUTES)
            rss = plane.peak_rss_mb()
    told = (
        f"{len(ENGINES)} engines, {FLEET_MINUTES} min, all sealed, median of the minutes; "
        f"{sent.late} posts over 1 s late; senders apart {sent.cpu_seconds / sent.seconds:.3f} "
        f"cores; {stolen:.1%} of this machine's time was taken by its host"
    )
    return [
        Figure(
            name="ingest.fleet64.core_share", value=median(shares), unit="cores", goal=0.10,
            compare="<=", low=min(shares), high=max(shares), n=FLEET_MINUTES, against=told,
        ),
        Figure(
            name="ingest.fleet64.rss_mb", value=rss, unit="MiB", goal=300, compare="<=",
            against="Prometheus at the same counts: 3,400 (reference; live at 8 engines below)",
        ),
    ]  # fmt: skip


def _one_hertz(plane: RunningPlane, minutes: int) -> tuple[list[float], Sent, float]:
    """The share of one core in each minute, how the load was held, the share of time stolen."""
    second = time.time() % 60  # noqa: TID251 - minutes are sealed by the wall clock
    settle = SETTLE_SECONDS + (HALF_PAST - second - SETTLE_SECONDS) % 60
    seconds = math.ceil(settle) + 60 * minutes + 1
    with Stream(plane, seconds) as stream:
        wait_until(time.perf_counter() + settle)
        began, stolen = time.perf_counter(), stolen_seconds()
        shares: list[float] = []
        for minute in range(minutes):
            at, cpu = time.perf_counter(), plane.cpu_seconds()
            wait_until(began + 60 * (minute + 1))
            shares.append((plane.cpu_seconds() - cpu) / (time.perf_counter() - at))
        stolen = (stolen_seconds() - stolen) / (60 * minutes * (os.cpu_count() or 1))
        sent = require_on_time(stream.finish())
    require_stored(plane, seconds)
    return shares, sent, stolen


def _row_per_count() -> Figure:
    """What a user would do first: one SQLite row for every count, in one transaction."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows.db"
        connection = sqlite3.connect(file)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute(
            "CREATE TABLE load (engine TEXT, layer INT, expert INT, at INT, count INT,"
            " PRIMARY KEY (engine, layer, expert, at)) WITHOUT ROWID"
        )
        rows = (
            ("e0", i // 256 % 58, i % 256, i // LOAD_COUNTS, i % 997) for i in range(ROW_COUNTS)
        )
        began = time.perf_counter()
        with connection:
            connection.executemany("INSERT INTO load VALUES (?, ?, ?, ?, ?)", rows)
        seconds = time.perf_counter() - began
        connection.close()
        size = file.stat().st_size
    return Figure(
        name="ingest.row_per_count.counts_per_s", value=ROW_COUNTS / seconds, unit="1/s",
        n=ROW_COUNTS, against=f"for comparison: {size / ROW_COUNTS:.1f} B a count on disk",
    )  # fmt: skip
