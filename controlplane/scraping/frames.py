"""A frame from what happened between two scrapes: no layers, latencies and scheduler only. Pure."""

import math
from dataclasses import dataclass
from typing import Any

from contract import CONTRACT_VERSION
from contract.frame import ARRAYS, HISTOGRAM_BOUNDS, FrameHeader, RequestCounts, SchedulerGauges
from contract.frame_codec import Counts, Frame
from contract.runtime_config import RuntimeConfig
from controlplane.engine_kind import EngineKind
from controlplane.history.observed import FIELD, Observed
from controlplane.scraping.cells import cells_of
from controlplane.scraping.difference import Delta
from controlplane.scraping.exposition import Reading

UNKNOWN_MODEL = "unknown"
_SUM_KEYS = {
    "ttft": "ttft", "tpot": "tpot", "inter_token": "itl", "queue_time": "queue",
    "request_time": "request",
}  # fmt: skip
_MOST = 2**53 - 1


@dataclass(frozen=True, slots=True)
class Interval:
    """Whose frame, and of when: start in unix seconds, length on the monotonic clock."""

    engine_id: str
    kind: EngineKind
    group: str
    boot_id: str
    sequence: int
    started: float
    seconds: float


def frame_of(interval: Interval, delta: Delta, reading: Reading) -> Frame:
    """The frame of one interval. What the endpoint does not offer is absent, not zero.

    What the contract cannot leave out (a config, sizes of the model, gauges) is filled in and
    stands for nothing: `history.observed.measured` leaves it out of all that is told.
    """
    arrays: dict[str, Counts] = {}
    exact: dict[str, tuple[float, ...]] = {}
    sums: dict[str, float] = {}
    for what, series in delta.histograms.items():
        dims = ARRAYS[what].dims
        cells, bounds = cells_of(series, HISTOGRAM_BOUNDS[dims[-1]])
        arrays[what] = cells.reshape(1, -1) if dims[0] == "G" else cells
        exact[what] = tuple(bounds)
        total = sum(buckets.total for buckets in series)
        if math.isfinite(total):
            sums[_SUM_KEYS[what]] = total
    observed = Observed(
        kind=interval.kind, exact_bounds=exact, missing=tuple(sorted(reading.missing))
    )
    header = FrameHeader.model_validate(
        {
            "contract_version": CONTRACT_VERSION, "engine_id": interval.engine_id,
            "group": interval.group or interval.engine_id,
            "model": (reading.model or UNKNOWN_MODEL)[:256], "boot_id": interval.boot_id,
            "sequence": interval.sequence, "started_unix_seconds": interval.started,
            "interval_seconds": interval.seconds, "layers": 0, "experts": 1, "top_k": 1,
            "ranks": 1, "generations": (0,), "config_generation": 0, "config": RuntimeConfig(),
            "tokens": (_whole(delta, "prefill_tokens"), _whole(delta, "decode_tokens")),
            "gauges": _gauges(reading), "requests": _requests(delta, arrays),
            "histogram_sums": sums, FIELD: observed.model_dump(mode="json"),
        }
    )  # fmt: skip
    return Frame(header, arrays)


def _gauges(reading: Reading) -> SchedulerGauges:
    values: dict[str, Any] = {
        "running": min(round(reading.gauges.get("running", 0)), _MOST),
        "queued": min(round(reading.gauges.get("queued", 0)), _MOST),
        "kv_blocks_used_ratio": min(1.0, reading.gauges.get("kv_used", 0.0)),
    }
    return SchedulerGauges(**values)


def _requests(delta: Delta, arrays: dict[str, Counts]) -> RequestCounts:
    tpot = arrays.get("tpot")
    return RequestCounts(
        finished=_whole(delta, "finished"), rejected=_whole(delta, "rejected"),
        failed=_whole(delta, "failed"), tpot_measured=0 if tpot is None else int(tpot.sum()),
    )  # fmt: skip


def _whole(delta: Delta, what: str) -> int:
    return min(round(delta.counters.get(what, 0.0)), _MOST)
