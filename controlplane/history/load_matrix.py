"""The expert-load matrix [layers, experts] of one or several engines, and its compact form."""

import struct
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from contract.frame import PHASES
from controlplane.errors import ConflictError
from controlplane.history.window import EngineWindow, Sums

MEDIA_TYPE = "application/vnd.trimtab.load"
_MAGIC = b"TLDM"
_HEAD = struct.Struct("<4sBBHIIddQ")
_VERSION, _U32, _F64 = 1, 4, 8
LAYOUT = (
    "little endian, 40 bytes and the values: magic `TLDM` · u8 version (1) · u8 width of a value "
    "(4 or 8) · u16 0 · u32 layers · u32 experts · f64 start · f64 end (unix seconds) · u64 frames "
    "· from byte 40 on layers × experts values row by row, u32 for width 4, f64 for width 8: "
    "assignments before capacity."
)
"""The bytes of `to_bytes`."""


@dataclass(frozen=True, slots=True)
class LoadMatrix:
    """Assignments [layers, experts] of [start, end), summed over frames and engines.

    Attributes:
        counts: the sum.
        start, end: what is covered, unix seconds.
        frames: of the engines that are summed, those that are about their newest model.
        left_out: frames of these engines that are about another model.
        engines: that are summed.
        odd_engines: whose model has another shape than that of most, or none.
    """

    counts: Sums
    start: float
    end: float
    frames: int
    left_out: int
    engines: list[str]
    odd_engines: list[str]


def of_windows(windows: Sequence[EngineWindow], phase: str | None) -> LoadMatrix | None:
    """The sum of the windows' assignments, of one phase or of both; None without any.

    Engines whose model has another shape than that of more than half of them are left out.

    Raises:
        ConflictError: no shape is that of more than half.
    """
    loads = {
        window.engine_id: load.sum(axis=0) if phase is None else load[PHASES.index(phase)]
        for window in windows
        if (load := window.arrays.get("assignments")) is not None
    }
    shape = _shape_of_most([load.shape for load in loads.values() if load.size])
    if shape is None:
        return None
    summed = [w for w in windows if w.engine_id in loads and loads[w.engine_id].shape == shape]
    return LoadMatrix(
        np.add.reduce([loads[window.engine_id] for window in summed], dtype=np.uint64),
        min(window.start for window in summed),
        max(window.end for window in summed),
        sum(window.frames - window.left_out for window in summed),
        sum(window.left_out for window in summed),
        [window.engine_id for window in summed],
        [engine_id for engine_id, load in loads.items() if load.shape != shape],
    )


def _shape_of_most(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...] | None:
    if not shapes:
        return None
    ((shape, engines), *others) = Counter(shapes).most_common()
    if 2 * engines <= len(shapes):
        other = others[0][0]
        raise ConflictError(
            f"{engines} engines have {shape[0]} layers × {shape[1]} experts, {others[0][1]} have "
            f"{other[0]} × {other[1]}: ask for one group",
            field="group", value=list(other), bound=list(shape),
        )  # fmt: skip
    return shape


def to_bytes(matrix: LoadMatrix) -> bytes:
    """The matrix for a heatmap, laid out as `LAYOUT` says."""
    small = int(matrix.counts.max(initial=0)) < 2**32
    layers, experts = matrix.counts.shape
    head = _HEAD.pack(
        _MAGIC, _VERSION, _U32 if small else _F64, 0, layers, experts, matrix.start, matrix.end,
        matrix.frames,
    )  # fmt: skip
    return head + matrix.counts.astype("<u4" if small else "<f8").tobytes()
