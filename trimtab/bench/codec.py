"""`trimtab bench codec`: bytes on the wire and on disk, against the entropy of what is stored."""

import csv
import tempfile
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import zstandard
from sqlalchemy import func, select

from contract.frame_codec import Frame, decode, encode
from controlplane.clock import ManualClock
from controlplane.db.database import open_database
from controlplane.history import inspection
from controlplane.history.chunk_codec import decode_chunk, encode_chunk
from controlplane.history.history import History
from controlplane.history.models import LoadChunk
from controlplane.history.packing import Values, pack, pack_planes
from controlplane.history.ring import ReceivedFrame
from controlplane.history.upkeep import Upkeep
from controlplane.settings import HistorySettings
from migrations.run import upgrade
from trimtab.bench.figure import Figure
from trimtab.bench.reference_load import (
    LOAD_COUNTS,
    ReferenceLoad,
    load_entropy_bytes,
    other_entropy_bytes,
)

FRAMES = 60
DISK_MINUTES = 10
START = 1_700_000_040.0
SHARED_DATA = Path("../shared/data")


def run() -> list[Figure]:
    """Sealed bytes over entropy, bytes a value on disk and on the wire, and real routing counts.

    A value is one number of a frame's arrays; frames of both phases, every array filled.
    """
    load = ReferenceLoad()
    frames = [load.frame("e0", i, START + i) for i in range(FRAMES)]
    return [
        _sealed(load, frames),
        _disk(load),
        _wire(frames),
        *_real(SHARED_DATA),
    ]


def _values(frames: Sequence[Frame]) -> int:
    return sum(values.size for frame in frames for values in frame.arrays.values())


def _sealed(load: ReferenceLoad, frames: list[Frame]) -> Figure:
    chunk = encode_chunk(frames)
    back = decode_chunk(chunk)
    for before, after in zip(frames, back, strict=True):
        same = all(np.array_equal(before.arrays[n], after.arrays[n]) for n in before.arrays)
        if not same or before.header != after.header:
            raise RuntimeError("the sealed chunk is not lossless")
    floor = (2 * load_entropy_bytes(load) + other_entropy_bytes(load)) * len(frames)
    loads = np.stack([frame.arrays["assignments"] for frame in frames])
    planes = len(pack_planes(loads.astype(np.uint64))) / loads.size
    packed = len(pack(loads.astype(np.uint64))[1]) / loads.size
    return Figure(
        name="codec.sealed_over_entropy", value=len(chunk) / floor, unit="ratio", goal=1.08,
        compare="<=", n=len(frames),
        against=f"loads alone: {packed:.3f} B a count, byte planes + zstd {planes:.3f}, "
        f"entropy {load_entropy_bytes(load) / LOAD_COUNTS:.3f}; decoded again and equal",
    )  # fmt: skip


def _disk(load: ReferenceLoad) -> Figure:
    """Everything that the tables of one engine hold, the ring spread over the chunks' retention."""
    with tempfile.TemporaryDirectory() as folder:
        database = open_database(f"sqlite:///{folder}/bench.db")
        upgrade(database)
        clock = ManualClock(START)
        settings = HistorySettings()
        history = History(database, settings, clock)
        upkeep = Upkeep(history)
        ring_bytes = values = 0
        for second in range(DISK_MINUTES * 60):
            frame = load.frame("e0", second, START + second)
            data = encode(frame)
            ring_bytes += len(data)
            values += _values([frame])
            history.append([ReceivedFrame(frame, data)])
            clock.advance(1)
            if second % 60 == 59:
                upkeep.seal()
        clock.advance(60)
        upkeep.seal()
        sizes = {size.table: size.size_bytes for size in inspection.sizes(database)}
        with database.read() as session:
            sealed = session.scalar(select(func.sum(LoadChunk.counts))) or 0
        database.close()
    kept = sizes["load_chunk"] + sizes["load_rollup"] + sizes["layer_summary"]
    frames_kept = settings.chunk_hours * 3600
    per_frame_ring = ring_bytes / (DISK_MINUTES * 60) * settings.ring_frames / frames_kept
    value = kept / int(sealed) + per_frame_ring * DISK_MINUTES * 60 / values
    return Figure(
        name="codec.disk_bytes_per_count", value=value, unit="B", goal=1.3, compare="<=",
        n=DISK_MINUTES * 60,
        against=f"chunks {sizes['load_chunk'] / int(sealed):.3f}, rollups "
        f"{sizes['load_rollup'] / int(sealed):.3f}, layer rows "
        f"{sizes['layer_summary'] / int(sealed):.3f}; a row per count in SQLite 13 B",
    )  # fmt: skip


def _wire(frames: list[Frame]) -> Figure:
    sizes = [len(encode(frame)) for frame in frames]
    for frame in frames[:3]:
        back = decode(encode(frame))
        if not all(np.array_equal(back.arrays[n], frame.arrays[n]) for n in frame.arrays):
            raise RuntimeError("the frame is not lossless")
    mean, loads = float(np.mean(sizes)), 2 * LOAD_COUNTS
    raw = float(np.mean([_raw_bytes(frame) for frame in frames[:10]]))
    return Figure(
        name="codec.wire_bytes_per_count", value=mean / loads, unit="B", goal=1.8, compare="<=",
        n=len(frames), low=min(sizes) / loads, high=max(sizes) / loads,
        against=f"a whole frame (header, histograms and all) over its {loads} expert loads; over "
        f"every number in it {mean * len(frames) / _values(frames):.3f} B; u32 + zstd "
        f"{raw / loads:.3f} B; OTLP point per expert 56.5 B",
    )  # fmt: skip


def _raw_bytes(frame: Frame) -> int:
    raw = b"".join(values.astype("<u4").tobytes() for values in frame.arrays.values())
    return len(zstandard.ZstdCompressor(level=3).compress(raw))


def _real(folder: Path) -> list[Figure]:
    """Real routing counts: totals of texts by domain, one domain after another as if in time."""
    figures: list[Figure] = []
    olmoe = folder / "moe_routing_olmoe" / "expert_counts.csv"
    if olmoe.exists():
        with olmoe.open(encoding="utf-8") as rows:
            table = [row for row in csv.DictReader(rows) if row["top_k_counted"] == "8"]
        figures.append(_real_figure("olmoe", _stacked(table, ("domain",), ("layer",), "count")))
    qwen = folder / "moe_routing_qwen35_256e" / "expert_selection_counts.csv"
    if qwen.exists():
        with qwen.open(encoding="utf-8") as rows:
            table = list(csv.DictReader(rows))
        counts = _stacked(table, ("condition", "prompt_id"), (), "selection_count")
        figures.append(_real_figure("qwen35", counts))
    return figures


def _stacked(
    table: list[dict[str, str]], times: tuple[str, ...], rows: tuple[str, ...], count: str
) -> Values:
    """[times, rows, experts] from a long table; what a table lacks is 0."""
    when = sorted({tuple(row[name] for name in times) for row in table})
    where = sorted({tuple(row[name] for name in rows) for row in table})
    experts = 1 + max(int(row["expert"]) for row in table)
    values = np.zeros((len(when), len(where), experts), dtype=np.uint64)
    for row in table:
        t = when.index(tuple(row[name] for name in times))
        r = where.index(tuple(row[name] for name in rows))
        values[t, r, int(row["expert"])] = int(row[count])
    return values


def _real_figure(name: str, values: Values) -> Figure:
    codec, data = pack(values)
    switches = [float(np.abs(a - b).sum() / max(a.sum(), 1)) for a, b in pairwise(values * 1.0)]
    return Figure(
        name=f"codec.real.{name}.bytes_per_count", value=len(data) / values.size, unit="B",
        n=len(values),
        against=f"codec {codec}; byte planes + zstd {len(pack_planes(values)) / values.size:.3f} B;"
        f" mean count {values.mean():.0f}, changed between neighbours {np.mean(switches):.2f}",
    )  # fmt: skip
