"""`trimtab bench query`: answers over HTTP while 64 engines stream, 95th percentiles.

The history is filled before the server starts: a minute of every engine, 24 hours of one engine,
and 7 days of its hourly layer rows.
"""

import dataclasses
import http.client
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from contract.frame_codec import encode
from controlplane.clock import ManualClock
from controlplane.db.database import Database, open_database
from controlplane.history.history import History
from controlplane.history.ring import ReceivedFrame
from controlplane.history.rollup_rows import store_summaries, store_windows
from controlplane.history.summing import WindowSum, sum_frames
from controlplane.history.upkeep import Upkeep
from controlplane.history.window import EngineWindow
from controlplane.settings import HistorySettings
from migrations.run import upgrade
from trimtab.bench.figure import Figure
from trimtab.bench.ingest import ENGINES
from trimtab.bench.plane import ADMIN_TOKEN, RunningPlane, running_plane
from trimtab.bench.reference_load import ReferenceLoad
from trimtab.bench.stream import Stream, require_on_time, wait_until

QUERIES = 60
STREAM_SECONDS = 60
SETTLE_SECONDS = 10
DAY_MINUTES = 24 * 60
WEEK_HOURS = 7 * 24


def run() -> list[Figure]:
    """Fleet matrix over a minute, one engine's day, one layer's week."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        url = f"sqlite:///{folder}/bench.db"
        end = int(time.time()) // 3600 * 3600 - 3600  # noqa: TID251 - a benchmark's wall clock
        database = open_database(url)
        upgrade(database)
        _fill(database, end)
        database.close()
        with running_plane(url, folder, ENGINES) as plane:
            return _measure(plane, end)


def _fill(database: Database, end: int) -> None:
    load = ReferenceLoad(phases=(1,))
    arrays = load.arrays()
    clock = ManualClock(end + 120.0)
    history = History(database, HistorySettings(), clock)
    for engine in ENGINES:
        frame = load.frame(engine, 0, float(end))
        history.append([ReceivedFrame(frame.header, encode(frame))])
    Upkeep(history).seal()
    frame = load.frame(ENGINES[0], 0, float(end))
    frame.arrays.update(arrays)
    second = sum_frames(ENGINES[0], end, end + 1, [frame])
    if second is None:
        raise RuntimeError("the reference frame is empty")
    minutes = range(end - DAY_MINUTES * 60, end, 60)
    hours = range(end - WEEK_HOURS * 3600, end, 3600)
    _store(database, second, 60, minutes, rollups=set(minutes))
    _store(database, second, 3600, hours, rollups={t0 for t0 in hours if t0 >= minutes[0]})


def _store(
    database: Database, second: EngineWindow, tier: int, starts: range, *, rollups: set[int]
) -> None:
    """Write intervals that hold one frame a minute, so that an hour is the sum of its minutes."""
    total = WindowSum()
    for _ in range(tier // 60):
        total.merge(second)
    whole = total.window(second.engine_id, 0, tier)
    if whole is None:
        raise RuntimeError("the reference frame is empty")
    for first in range(0, len(starts), 500):
        with database.write() as session:
            for t0 in starts[first : first + 500]:
                window = dataclasses.replace(whole, start=t0, end=t0 + tier)
                if t0 in rollups:
                    store_windows(session, [window], tier)
                store_summaries(session, window, tier)


def _measure(plane: RunningPlane, end: int) -> list[Figure]:
    day = f"/api/v1/load?engine={ENGINES[0]}&start={end - 86400}&end={end}&format=binary"
    week = (
        f"/api/v1/engines/{ENGINES[0]}/layers?start={end - 7 * 86400}&end={end}"
        "&layer=17&column=load_cv_debiased_ratio"
    )
    fleet = f"/api/v1/load?start={end}&end={end + 60}&format=binary"
    with Stream(plane, STREAM_SECONDS) as stream:
        wait_until(time.perf_counter() + SETTLE_SECONDS)
        found = [
            _percentile(plane, "query.fleet_minute.p95_s", fleet, 0.05,
                        "Prometheus, same question: 13 to 46 s (reference)"),
            _percentile(plane, "query.engine_day.p95_s", day, 0.2, "24 h heatmap of one engine"),
            _percentile(plane, "query.layer_week.p95_s", week, 0.1, "7 d of one layer"),
        ]  # fmt: skip
        require_on_time(stream.finish())
    return found


def _percentile(plane: RunningPlane, name: str, path: str, goal: float, against: str) -> Figure:
    connection = http.client.HTTPConnection("127.0.0.1", plane.port, timeout=60)
    headers = {"Authorization": f"Bearer {ADMIN_TOKEN}"}

    def ask() -> None:
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        body = response.read()
        if response.status != 200:
            raise RuntimeError(f"{path} answered {response.status}: {body[:200]!r}")

    ask()
    seconds = sorted(_timed(ask) for _ in range(QUERIES))
    connection.close()
    return Figure(
        name=name, value=float(np.quantile(seconds, 0.95)), unit="s", goal=goal, compare="<=",
        n=QUERIES, low=seconds[0], high=seconds[-1],
        against=f"{against}; while 64 engines stream; median {np.median(seconds):.4f} s",
    )  # fmt: skip


def _timed(act: Callable[[], None]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began
