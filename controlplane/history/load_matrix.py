"""The expert-load matrix [layers, experts] of one or several engines, and its compact form."""

import struct
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
    """Assignments [layers, experts] of [start, end), summed over frames and engines."""

    counts: Sums
    start: float
    end: float
    frames: int


def of_windows(windows: Sequence[EngineWindow], phase: str | None) -> LoadMatrix | None:
    """The sum of the windows' assignments, of one phase or of both; None without any.

    Raises:
        ConflictError: the engines serve models of different shape.
    """
    total: Sums | None = None
    for window in windows:
        loads = window.arrays.get("assignments")
        if loads is None:
            continue
        load: Sums = loads.sum(axis=0) if phase is None else loads[PHASES.index(phase)]
        if total is None:
            total = load.astype(np.uint64)
        elif total.shape != load.shape:
            raise ConflictError(
                f"engine {window.engine_id!r} has {load.shape[0]} layers × {load.shape[1]} "
                f"experts, others have {total.shape[0]} × {total.shape[1]}: ask for one group",
                field="group", value=list(load.shape), bound=list(total.shape),
            )  # fmt: skip
        else:
            total = total + load
    if total is None:
        return None
    return LoadMatrix(
        total,
        min(window.start for window in windows),
        max(window.end for window in windows),
        sum(window.frames for window in windows),
    )


def to_bytes(matrix: LoadMatrix) -> bytes:
    """The matrix for a heatmap, laid out as `LAYOUT` says."""
    small = int(matrix.counts.max(initial=0)) < 2**32
    layers, experts = matrix.counts.shape
    head = _HEAD.pack(
        _MAGIC, _VERSION, _U32 if small else _F64, 0, layers, experts, matrix.start, matrix.end,
        matrix.frames,
    )  # fmt: skip
    return head + matrix.counts.astype("<u4" if small else "<f8").tobytes()
