"""`trimtab bench codec`: bytes on the wire and on disk, against the entropy of what is stored."""

import csv
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import zstandard
from pcodec import ChunkConfig, DeltaSpec, ModeSpec, standalone
from sqlalchemy import func, select

from contract.frame_codec import Frame, decode, encode
from contract.frame_stack import stack_frames
from controlplane.clock import ManualClock
from controlplane.db.database import open_database
from controlplane.history import inspection
from controlplane.history.chunk_codec import decode_chunk, encode_chunk
from controlplane.history.history import History
from controlplane.history.models import LoadChunk
from controlplane.history.packing import pack
from controlplane.history.planes import Unsigned, Values, pack_planes, planes_of
from controlplane.history.ring import ReceivedFrame
from controlplane.history.share_residual import residuals
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
TIMED = 3
START = 1_700_000_040.0
SHARED_DATA = Path("../shared/data")
_PCODEC = ChunkConfig(
    compression_level=6, delta_spec=DeltaSpec.no_op(), mode_spec=ModeSpec.classic()
)


def run() -> list[Figure]:
    """Sealed bytes over entropy, bytes a value on disk and on the wire, and real routing counts.

    A value is one number of a frame's arrays; frames of both phases, every array filled.
    """
    load = ReferenceLoad()
    frames = [load.frame("e0", i, START + i) for i in range(FRAMES)]
    loads = np.stack([frame.arrays["assignments"] for frame in frames])
    entropy = load_entropy_bytes(load) / LOAD_COUNTS
    return [
        _sealed(load, frames),
        _disk(load),
        _wire(frames),
        *_compared("loads", loads, f"entropy {entropy:.3f} B"),
        *_real(SHARED_DATA),
    ]


def _values(frames: Sequence[Frame]) -> int:
    return sum(values.size for frame in frames for values in frame.arrays.values())


def _sealed(load: ReferenceLoad, frames: list[Frame]) -> Figure:
    stack = stack_frames(frames)
    chunk = encode_chunk(stack)
    back = decode_chunk(chunk).frames()
    for before, after in zip(frames, back, strict=True):
        same = all(np.array_equal(before.arrays[n], after.arrays[n]) for n in before.arrays)
        if not same or before.header != after.header:
            raise RuntimeError("the sealed chunk is not lossless")
    floor = (2 * load_entropy_bytes(load) + other_entropy_bytes(load)) * len(frames)
    return Figure(
        name="codec.sealed_over_entropy", value=len(chunk) / floor, unit="ratio", goal=1.08,
        compare="<=", n=len(frames),
        against="headers, histograms and all; decoded again and equal",
    )  # fmt: skip


def _compared(name: str, counts: Unsigned, about: str) -> list[Figure]:
    """The codec in use on some counts, and those that it was chosen from."""
    tried: dict[str, Callable[[], bytes]] = {
        f"in_use ({pack(counts)[0]})": lambda: pack(counts)[1],
        "byte_planes": lambda: _byte_planes(counts),
        "pcodec": lambda: _pcodec(np.moveaxis(counts, 0, -1)),
        "pcodec_residual": lambda: _pcodec_residual(counts),
    }
    figures: list[Figure] = []
    for codec, packed in tried.items():
        size = len(packed())
        began = time.process_time()
        for _ in range(TIMED):
            packed()
        seconds = (time.process_time() - began) / TIMED
        told = f"{1e9 * seconds / counts.size:.0f} ns a count; {about}"
        full_name = f"codec.{name}.{codec}.bytes_per_count"
        figures.append(Figure(full_name, size / counts.size, "B", n=len(counts), against=told))
    return figures


def _byte_planes(counts: Unsigned) -> bytes:
    """At a level that looks for what repeats from frame to frame: high bytes do."""
    return zstandard.ZstdCompressor(level=3).compress(b"".join(planes_of(counts)))


def _pcodec_residual(counts: Unsigned) -> bytes:
    """Residuals against running shares, series ordered by their size, as in the codec in use."""
    if len(counts) < 2:
        return _pcodec(counts)
    rows = counts.reshape(len(counts), -1, counts.shape[-1])
    totals = rows.sum(axis=-1, dtype=np.uint64)
    order = np.argsort(rows[0].ravel(), kind="stable")
    noise = residuals(rows, totals, np.float64).reshape(len(rows) - 1, -1).T[order]
    return pack_planes(rows[0]) + pack_planes(totals) + _pcodec(noise)


def _pcodec(values: npt.NDArray[Any]) -> bytes:
    flat = np.ascontiguousarray(values, dtype=np.int32).ravel()
    return bytes(standalone.simple_compress(flat, _PCODEC))


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
            history.append([ReceivedFrame(frame.header, data)])
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
        figures += _real_figures("olmoe", _stacked(table, ("domain",), ("layer",), "count"))
    qwen = folder / "moe_routing_qwen35_256e" / "expert_selection_counts.csv"
    if qwen.exists():
        with qwen.open(encoding="utf-8") as rows:
            table = list(csv.DictReader(rows))
        counts = _stacked(table, ("condition", "prompt_id"), (), "selection_count")
        figures += _real_figures("qwen35", counts)
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


def _real_figures(name: str, values: Values) -> list[Figure]:
    switches = [float(np.abs(a - b).sum() / max(a.sum(), 1)) for a, b in pairwise(values * 1.0)]
    changed = float(np.mean(switches))
    about = f"mean count {values.mean():.0f}, changed between neighbours {changed:.2f}"
    return _compared(f"real.{name}", values, about)
