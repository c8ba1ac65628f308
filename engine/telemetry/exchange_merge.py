"""All-to-all of the group from the logs of its ranks: the slowest rank decides a step."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from contract.frame import HISTOGRAM_BOUNDS, OPS, PARTS, PHASES
from engine.telemetry.counts import RankCounts
from engine.telemetry.histogram_cells import cells_by_row, cells_of

Arrays = dict[str, npt.NDArray[np.int64]]


def merge_exchanges(
    ranks: Sequence[RankCounts], *, ranks_total: int, layers: int
) -> tuple[Arrays, dict[str, float]]:
    """Arrays `a2a_*` of a frame and their sums, from every rank's log.

    A step counts by its slowest rank, part by part. Steps that some rank did not log (a drain that
    fell between two ranks) are compared over the ranks that did.
    """
    bounds = HISTOGRAM_BOUNDS["a2a"]
    width = len(bounds) + 1
    slowest, phases = _slowest(ranks, layers)
    arrays: Arrays = {
        "a2a_layer": np.zeros((len(OPS), len(PARTS), layers, width), dtype=np.int64),
        "a2a_phase": np.zeros((len(OPS), len(PARTS), len(PHASES), width), dtype=np.int64),
        "a2a_rank": np.zeros((len(OPS), len(PARTS), ranks_total, width), dtype=np.int64),
        "a2a_rank_wait_us": np.zeros(ranks_total, dtype=np.int64),
        "a2a_bytes": np.zeros(len(OPS), dtype=np.int64),
        "a2a_message": np.zeros((len(OPS), len(HISTOGRAM_BOUNDS["message"]) + 1), dtype=np.int64),
    }
    sums: dict[str, float] = {}
    for op, op_name in enumerate(OPS):
        for part, part_name in enumerate(PARTS):
            times = slowest[:, op, part]
            arrays["a2a_layer"][op, part] = cells_by_row(times, bounds)
            for phase, phase_name in enumerate(PHASES):
                chosen = times[phases == phase]
                arrays["a2a_phase"][op, part, phase] = cells_of(chosen, bounds)
                sums[f"a2a.{op_name}.{phase_name}.{part_name}"] = float(chosen.sum())
            for counts in ranks:
                own = counts.exchange_seconds[:, op, part]
                arrays["a2a_rank"][op, part, counts.rank] = cells_of(own, bounds)
        sums[f"message.{op_name}"] = sum(counts.message_bytes[op] for counts in ranks)
    for counts in ranks:
        wait = counts.exchange_seconds[:, :, 0].sum(dtype=np.float64)
        arrays["a2a_rank_wait_us"][counts.rank] = round(float(wait) * 1e6)
        arrays["a2a_bytes"] += counts.arrays.get("a2a_bytes", 0)
        if counts.message_cells is not None:
            arrays["a2a_message"] += counts.message_cells
    return arrays, sums


def _slowest(
    ranks: Sequence[RankCounts], layers: int
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    """Maximum over ranks of every step: float32 [S, O, W, L], and phases int64 [S]."""
    ids = np.unique(np.concatenate([np.zeros(0, dtype=np.int64), *(r.step_ids for r in ranks)]))
    slowest = np.zeros((len(ids), len(OPS), len(PARTS), layers), dtype=np.float32)
    phases = np.zeros(len(ids), dtype=np.int64)
    for counts in ranks:
        rows = np.searchsorted(ids, counts.step_ids)
        if len(rows):
            slowest[rows] = np.maximum(slowest[rows], counts.exchange_seconds)
            phases[rows] = counts.step_phases
    return slowest, phases
