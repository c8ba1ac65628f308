"""A frame from the counts of all ranks, the requests of the parent, and the state of the engine."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from contract import CONTRACT_VERSION
from contract.frame import ARRAYS, HISTOGRAM_BOUNDS, FrameHeader, Role, SchedulerGauges
from contract.frame_codec import Counts, Frame, saturated
from contract.runtime_config import RuntimeConfig
from engine.telemetry.counts import RankCounts
from engine.telemetry.exchange_merge import merge_exchanges
from engine.telemetry.generation_slots import choose_slots, gather
from engine.telemetry.request_metrics import RequestInterval


@dataclass(frozen=True, slots=True)
class EngineIdentity:
    """What does not change while an engine runs; the head of every frame."""

    engine_id: str
    group: str
    model: str
    boot_id: str
    layers: int
    experts: int
    top_k: int
    ranks: int
    role: Role = Role.MIXED
    simulated: bool = False
    expert_set_hash: str = ""


@dataclass(frozen=True, slots=True)
class FrameStatus:
    """The engine at the end of an interval, as its server and core know it."""

    config_generation: int
    config: RuntimeConfig
    configured_bias: str | None = None
    live_bias: str | None = None
    lkg_bias: str | None = None
    bias_version: int = 0
    lkg_bias_version: int = 0
    bias_distance: float = 0.0
    placement: str = "linear"
    epoch_seen: int = 0
    frozen: bool = False
    gauges: SchedulerGauges = field(default_factory=SchedulerGauges)
    probe_nll: float | None = None


class FrameBuilder:
    """Numbers frames of one boot. Pure but for the sequence: same inputs, same frame."""

    def __init__(self, identity: EngineIdentity) -> None:
        self.identity = identity
        self._sequence = 0

    def build(
        self,
        ranks: Sequence[RankCounts],
        requests: RequestInterval,
        status: FrameStatus,
        *,
        started_unix_seconds: float,
        interval_seconds: float,
        period_seconds: float = 0.0,
    ) -> Frame:
        """Merge one interval.

        Args:
            ranks: one drain of every rank, any order; empty when recording is off.
            requests: `RequestMetrics.drain()` of the interval.
            status: the engine at its end.
            started_unix_seconds: wall clock at the start.
            interval_seconds: length on the monotonic clock.
            period_seconds: length that the `bucket_*` arrays cover, 0 without them.
        """
        identity = self.identity
        merged = _sum_ranks(ranks)
        exchanged, sums = merge_exchanges(ranks, ranks_total=identity.ranks, layers=identity.layers)
        head = next((counts for counts in ranks if counts.rank == 0), None)
        counted: RankCounts | RequestInterval = head or requests
        slots = choose_slots(_generations(requests, head), status.config_generation)
        merged |= exchanged if ranks else {}
        merged |= _by_generation(requests, head, slots)
        merged["request_time"] = requests.request_time
        packed, cut = _packed(merged)
        header = FrameHeader(
            saturated=cut,
            contract_version=CONTRACT_VERSION,
            sequence=self._sequence,
            started_unix_seconds=started_unix_seconds,
            interval_seconds=interval_seconds,
            period_seconds=period_seconds if "bucket_assignments" in merged else 0.0,
            step_first=counted.step_first,
            step_last=counted.step_last,
            steps=counted.steps,
            tokens=requests.tokens,
            sequences=requests.sequences,
            sampled_steps=head.sampled_steps if head else 0,
            sampled_tokens=sum(counts.sampled_tokens for counts in ranks),
            generations=slots,
            requests=requests.requests,
            gate_mass_kept=sum(counts.gate_mass_kept for counts in ranks),
            gate_mass_total=sum(counts.gate_mass_total for counts in ranks),
            required_capacity_factor=head.required_capacity_factor if head else 0.0,
            histogram_sums={**requests.sums, **{k: v for k, v in sums.items() if v}},
            **_fields(identity),
            **_fields(status),
        )
        self._sequence += 1
        return Frame(header=header, arrays=packed)


def _fields(value: EngineIdentity | FrameStatus) -> dict[str, object]:
    return {name: getattr(value, name) for name in value.__slots__}


def _sum_ranks(ranks: Sequence[RankCounts]) -> dict[str, npt.NDArray[np.int64]]:
    merged: dict[str, npt.NDArray[np.int64]] = {}
    for counts in ranks:
        for name, values in counts.arrays.items():
            merged[name] = merged[name] + values if name in merged else values
    return merged


def _generations(requests: RequestInterval, head: RankCounts | None) -> set[int]:
    seen = {g for rows in requests.by_generation.values() for g in rows}
    return seen | (set(head.generation_assignments) if head else set())


def _by_generation(
    requests: RequestInterval, head: RankCounts | None, slots: tuple[int, ...]
) -> dict[str, npt.NDArray[np.int64]]:
    shapes = {"ttft": "ttft", "tpot": "tpot", "queue_time": "queue", "inter_token": "itl"}
    arrays = {
        name: gather(requests.by_generation.get(name, {}), slots, (_cells(bounds),))
        for name, bounds in shapes.items()
    }
    steps = requests.by_generation.get("step_time", {})
    arrays["step_time"] = gather(steps, slots, (2, _cells("step")))
    if head is not None:
        for name, counted in (
            ("generation_assignments", head.generation_assignments),
            ("generation_overflow", head.generation_overflow),
        ):
            rows = {g: np.asarray(n, dtype=np.int64) for g, n in counted.items()}
            arrays[name] = gather(rows, slots, ())
    return arrays


def _cells(bounds: str) -> int:
    return len(HISTOGRAM_BOUNDS[bounds]) + 1


def _packed(
    arrays: Mapping[str, npt.NDArray[np.int64]],
) -> tuple[dict[str, Counts], tuple[str, ...]]:
    unknown = sorted(set(arrays) - set(ARRAYS))
    if unknown:
        raise KeyError(f"unknown frame array {unknown[0]!r}; known: {', '.join(sorted(ARRAYS))}")
    return saturated(arrays)
