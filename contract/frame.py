"""The telemetry frame: what one engine says of one second, self-contained.

A frame is a JSON header (`FrameHeader`) and named integer arrays (`ARRAYS`), packed by
`contract.frame_codec`. Counts are deltas of the frame's interval, never running totals, so any sum
of frames is the count of that window.

Dimension symbols of an array: P phases (prefill, decode) · L MoE layers · E logical experts ·
R capacity rungs · B request-hash buckets · M ranks · G admission or live generations · O all-to-all
ops (dispatch, combine) · W parts (wait, transfer) · and, for histograms, the number of cells of the
bounds named in `contract.histograms`.
"""

from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from contract import histograms
from contract.model import ContractModel
from contract.runtime_config import CAPACITY_LADDER, ContentHash, RuntimeConfig

PHASES = ("prefill", "decode")
OPS = ("dispatch", "combine")
PARTS = ("wait", "transfer")
NUM_BUCKETS = 8
MAX_GENERATIONS = 5
"""Generation slots of a frame: the newest four, and `older` in the last."""
OLDER = -1
MAX_FRAME_BYTES = 8 * 1024 * 1024
LAST_SEQUENCE = 2**32 - 1
"""At one frame a second an engine counts so far in 136 years."""

Count = Annotated[int, Field(ge=0)]
Summable = Annotated[float, Field(ge=-1e18, le=1e18)]
"""Of which as many as there may ever be add up to a finite number."""


class ArraySpec(ContractModel):
    """One named array: its dimensions by symbol, and what it counts."""

    name: str
    dims: tuple[str, ...]
    meaning: str
    every_second: bool = True


HISTOGRAM_BOUNDS: dict[str, tuple[float, ...]] = {
    "ttft": histograms.TTFT_SECONDS,
    "tpot": histograms.TPOT_SECONDS,
    "itl": histograms.INTER_TOKEN_SECONDS,
    "queue": histograms.QUEUE_SECONDS,
    "request": histograms.REQUEST_SECONDS,
    "step": histograms.STEP_SECONDS,
    "a2a": histograms.ALL_TO_ALL_SECONDS,
    "message": histograms.MESSAGE_BYTES,
}

SUM_KEYS: tuple[str, ...] = (
    "ttft", "tpot", "itl", "queue", "request",
    *(f"step.{phase}" for phase in PHASES),
    *(f"a2a.{op}.{phase}.{part}" for op in OPS for phase in PHASES for part in PARTS),
    *(f"message.{op}" for op in OPS),
)  # fmt: skip
"""Keys of `FrameHeader.histogram_sums`: a histogram without its sum has no mean."""


def _spec(name: str, dims: str, meaning: str, *, every_second: bool = True) -> ArraySpec:
    return ArraySpec(
        name=name, dims=tuple(dims.split()), meaning=meaning, every_second=every_second
    )


ARRAYS: dict[str, ArraySpec] = {
    spec.name: spec
    for spec in (
        _spec("assignments", "P L E", "token-to-expert assignments before capacity"),
        _spec("whatif_live", "L E", "assignments of the sampled steps, as routed"),
        _spec("whatif_lkg", "L E", "the same sampled tokens, routed by the last known good bias"),
        _spec("overflow", "L", "assignments beyond capacity at the live C, per step, pre-reroute"),
        _spec("overflow_at_rung", "R L", "the same at every rung of the ladder"),
        _spec("rerouted", "L", "overflow that another expert took"),
        _spec("spilled", "L", "overflow that a replica took"),
        _spec("dropped", "L", "overflow that no expert took"),
        _spec("executed", "L", "assignments that an expert computed"),
        _spec("capacity_slots", "L", "slots offered: sum over steps of experts × capacity"),
        _spec("required_max", "L", "largest single-expert count of any step"),
        _spec("card_assignments", "L M", "executed assignments by the rank that computed them"),
        _spec("tokens_all_dropped", "L", "tokens whose every assignment was dropped"),
        _spec("a2a_layer", "O W L a2a", "all-to-all time per layer, slowest rank"),
        _spec("a2a_phase", "O W P a2a", "a2a_layer summed over layers, by phase of the step"),
        _spec("a2a_rank", "O W M a2a", "all-to-all time per rank, all layers"),
        _spec("a2a_rank_wait_us", "M", "time that a rank waited for its peers, µs"),
        _spec("a2a_bytes", "O", "payload sent to other ranks"),
        _spec("a2a_message", "O message", "payload bytes per peer message"),
        _spec("step_time", "G P step", "engine step time by live generation; phase of the step"),
        _spec("inter_token", "G itl", "gap between output tokens by live generation"),
        _spec("generation_assignments", "G", "assignments by live generation, all layers"),
        _spec("generation_overflow", "G", "overflow by live generation, all layers"),
        _spec("ttft", "G ttft", "time to first token by generation of admission"),
        _spec("tpot", "G tpot", "mean time per output token of finished requests, by admission"),
        _spec("queue_time", "G queue", "time in queue by generation of admission"),
        _spec("request_time", "request", "arrival to last token of finished requests"),
        _spec("bucket_assignments", "B L E", "assignments by request-hash bucket, this period",
              every_second=False),
        _spec("bucket_whatif_live", "B L E", "whatif_live by bucket, this period",
              every_second=False),
        _spec("bucket_whatif_lkg", "B L E", "whatif_lkg by bucket, this period",
              every_second=False),
    )
}  # fmt: skip


class Role(StrEnum):
    """The pool that an engine serves in."""

    MIXED = "mixed"
    PREFILL = "prefill"
    DECODE = "decode"


class SchedulerGauges(ContractModel):
    """The scheduler at the end of the interval."""

    running: Count = 0
    queued: Count = 0
    kv_blocks_used_ratio: float = 0.0


class RequestCounts(ContractModel):
    """Requests of the interval by how they ended."""

    admitted: Count = 0
    finished: Count = 0
    rejected: Count = 0
    failed: Count = 0
    tpot_measured: Count = 0


class FrameHeader(BaseModel):
    """Everything of a frame that is not an array. Unknown fields of a newer minor are kept.

    Attributes:
        contract_version: `MAJOR.MINOR`; a reader accepts its own major.
        engine_id: must be the id that the telemetry token is bound to.
        group: EP group.
        simulated: whether a simulation wrote this.
        boot_id: new at every start of the engine; sequence restarts with it.
        sequence: counts frames of a boot from 0; holes are gaps.
        dropped_before: frames of this boot that the engine's bounded buffer lost, in total.
        started_unix_seconds: start of the interval.
        interval_seconds: its length on the monotonic clock.
        period_seconds: length covered by the `bucket_*` arrays, 0 when they are absent.
        step_first, step_last: engine steps of the interval, inclusive; first > last when none ran.
        tokens: tokens of the interval by phase.
        sequences: distinct sequences that had a token.
        sampled_steps, sampled_tokens: behind the what-if arrays.
        generations: live generation of each G slot; `OLDER` (-1) marks the rest. A frame of this
            minor has at most `MAX_GENERATIONS`.
        config_generation, config: at the end of the interval.
        configured_bias, live_bias, lkg_bias: content hashes, None where the model has no bias.
        bias_version, lkg_bias_version: integers of the store, 0 for none.
        bias_distance: L∞ of the live bias to the last known good.
        gate_mass_kept, gate_mass_total: sums of gate weights, kept and before dropping.
        required_capacity_factor: smallest C without overflow: largest count of one expert over
            λ = T·k/E of any layer in any step that overflows at C = 1; 0 when no step ran.
        histogram_sums: sum of what a histogram counted, in its unit, by `SUM_KEYS`.
        saturated: arrays in which a value is at the bound of u32: the true one is larger. (Bytes of
            an all-to-all can reach it within a second on fast links; a sum over frames is then a
            lower bound.) Since 1.1.
        probe_nll: last probe result in nats per token, None before the first.
        context_tokens, kv_blocks: sizes.
    """

    model_config = ConfigDict(frozen=True, extra="allow")

    contract_version: str
    engine_id: str = Field(min_length=1, max_length=128)
    group: str = Field(min_length=1, max_length=128)
    role: Role = Role.MIXED
    model: str = Field(min_length=1, max_length=256)
    simulated: bool = False
    expert_set_hash: str = ""
    boot_id: str = Field(min_length=1, max_length=64)
    sequence: int = Field(ge=0, le=LAST_SEQUENCE)
    dropped_before: Count = 0
    started_unix_seconds: float
    interval_seconds: float = Field(gt=0, le=3600)
    period_seconds: float = Field(default=0, ge=0, le=3600)
    layers: int = Field(ge=0, le=512)
    experts: int = Field(ge=1, le=4096)
    top_k: int = Field(ge=1, le=64)
    ranks: int = Field(ge=1, le=1024)
    step_first: Count = 0
    step_last: int = Field(default=-1, ge=-1)
    steps: Count = 0
    tokens: tuple[Count, Count] = (0, 0)
    sequences: Count = 0
    sampled_steps: Count = 0
    sampled_tokens: Count = 0
    generations: tuple[Annotated[int, Field(ge=OLDER)], ...] = Field(default=(), max_length=64)
    config_generation: Count
    config: RuntimeConfig
    configured_bias: ContentHash | None = None
    live_bias: ContentHash | None = None
    lkg_bias: ContentHash | None = None
    bias_version: Count = 0
    lkg_bias_version: Count = 0
    bias_distance: Summable = 0.0
    placement: str = "linear"
    epoch_seen: Count = 0
    frozen: bool = False
    gauges: SchedulerGauges = SchedulerGauges()
    requests: RequestCounts = RequestCounts()
    gate_mass_kept: Summable = 0.0
    gate_mass_total: Summable = 0.0
    required_capacity_factor: Summable = 0.0
    histogram_sums: dict[str, Summable] = Field(default_factory=dict)
    saturated: tuple[str, ...] = ()
    probe_nll: Summable | None = None

    @property
    def ended_unix_seconds(self) -> float:
        """End of the frame by its engine's clock."""
        return self.started_unix_seconds + self.interval_seconds

    def sizes(self) -> dict[str, int]:
        """How long each dimension is in this frame, by its symbol."""
        return {
            "P": len(PHASES),
            "L": self.layers,
            "E": self.experts,
            "R": len(CAPACITY_LADDER),
            "B": NUM_BUCKETS,
            "M": self.ranks,
            "G": len(self.generations),
            "O": len(OPS),
            "W": len(PARTS),
            **{name: len(bounds) + 1 for name, bounds in HISTOGRAM_BOUNDS.items()},
        }

    def shape(self, spec: ArraySpec) -> tuple[int, ...]:
        """The shape that an array must have in this frame."""
        sizes = self.sizes()
        return tuple(sizes[symbol] for symbol in spec.dims)
