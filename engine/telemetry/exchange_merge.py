"""All-to-all of the group from the logs of its ranks: the slowest rank decides a step."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from contract.frame import HISTOGRAM_BOUNDS, OPS, PARTS, PHASES
from engine.telemetry.counts import RankCounts

Arrays = dict[str, npt.NDArray[np.int64]]
Ints = npt.NDArray[np.int64]
Seconds = npt.NDArray[np.float32]

_BOUNDS = np.asarray(HISTOGRAM_BOUNDS["a2a"])
_WIDTH = len(_BOUNDS) + 1


def merge_exchanges(
    ranks: Sequence[RankCounts], *, ranks_total: int, layers: int
) -> tuple[Arrays, dict[str, float]]:
    """Arrays `a2a_*` of a frame and their sums, from every rank's log.

    A step counts by its slowest rank, part by part. Steps that some rank did not log (a drain that
    fell between two ranks) are compared over the ranks that did.
    """
    slowest, phases = _slowest(ranks, layers)
    cells = _cells(slowest)
    logged = [counts for counts in ranks if len(counts.step_ids)]
    rank_of = [np.full(len(counts.step_ids), counts.rank) for counts in logged]
    own = [counts.exchange_seconds for counts in logged]
    empty = np.zeros((0, len(OPS), len(PARTS), layers), dtype=np.float32)
    by_step = (-1, 1, 1, 1)
    arrays: Arrays = {
        "a2a_layer": _count(cells, np.arange(layers), layers),
        "a2a_phase": _count(cells, phases.reshape(by_step), len(PHASES)),
        "a2a_rank": _count(
            _cells(np.concatenate([empty, *own])),
            np.concatenate([np.zeros(0, dtype=np.int64), *rank_of]).reshape(by_step),
            ranks_total,
        ),
        "a2a_rank_wait_us": np.zeros(ranks_total, dtype=np.int64),
        "a2a_bytes": np.zeros(len(OPS), dtype=np.int64),
        "a2a_message": np.zeros((len(OPS), len(HISTOGRAM_BOUNDS["message"]) + 1), dtype=np.int64),
    }
    for counts in ranks:
        wait = counts.exchange_seconds[:, :, 0].sum(dtype=np.float64)
        arrays["a2a_rank_wait_us"][counts.rank] = round(float(wait) * 1e6)
        arrays["a2a_bytes"] += counts.arrays.get("a2a_bytes", 0)
        if counts.message_cells is not None:
            arrays["a2a_message"] += counts.message_cells
    return arrays, _sums(ranks, slowest, phases)


def _cells(seconds: Seconds) -> Ints:
    """The histogram cell of every time (`le`: a bound counts in its own cell)."""
    return np.searchsorted(_BOUNDS, seconds, side="left")


def _count(cells: Ints, key: Ints, keys: int) -> Ints:
    """Cells [S, O, W, L] by op, part and key (broadcast against them): [O, W, keys, cells]."""
    group = np.arange(len(OPS) * len(PARTS)).reshape(1, len(OPS), len(PARTS), 1)
    flat = ((group * keys + key) * _WIDTH + cells).ravel()
    shape = (len(OPS), len(PARTS), keys, _WIDTH)
    return np.bincount(flat, minlength=int(np.prod(shape))).reshape(shape)


def _sums(ranks: Sequence[RankCounts], slowest: Seconds, phases: Ints) -> dict[str, float]:
    sums = {
        f"message.{name}": sum(counts.message_bytes[op] for counts in ranks)
        for op, name in enumerate(OPS)
    }
    for phase, phase_name in enumerate(PHASES):
        total = slowest[phases == phase].sum(axis=(0, 3), dtype=np.float64)
        for op, op_name in enumerate(OPS):
            for part, part_name in enumerate(PARTS):
                sums[f"a2a.{op_name}.{phase_name}.{part_name}"] = float(total[op, part])
    return sums


def _slowest(ranks: Sequence[RankCounts], layers: int) -> tuple[Seconds, Ints]:
    """Maximum over ranks of every step: float32 [S, O, W, L], and phases int64 [S]."""
    ids = np.array(sorted({step for r in ranks for step in r.step_ids.tolist()}), dtype=np.int64)
    slowest = np.zeros((len(ids), len(OPS), len(PARTS), layers), dtype=np.float32)
    phases = np.zeros(len(ids), dtype=np.int64)
    for counts in ranks:
        rows = np.searchsorted(ids, counts.step_ids)
        if len(rows):
            slowest[rows] = np.maximum(slowest[rows], counts.exchange_seconds)
            phases[rows] = counts.step_phases
    return slowest, phases
