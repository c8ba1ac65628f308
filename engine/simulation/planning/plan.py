"""Every N × M (and redundancy) for a number of cards: fit, latency, throughput. Pure.

Predictions come from the cost model: fitted for all-to-all and expert kernels, assumed for the
rest, no queueing. TTFT is that of a prompt that meets no queue and shares its steps with the
decoding sequences of its rank.
"""

import math
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from engine.errors import BadRequestError
from engine.simulation.cost.dense import Tokens
from engine.simulation.cost.imbalance import busiest_rank
from engine.simulation.cost.memory import CardMemory, card_memory
from engine.simulation.cost.shape import ModelShape
from engine.simulation.cost.step import Layout, step_time
from engine.simulation.cost.topology import Topology

ENGINES = ("megatron", "vllm", "sglang")
"""`megatron` splits experts by tensor parallelism too; the others keep an expert whole."""
MAX_CARDS = 4096


@dataclass(frozen=True, slots=True)
class Demand:
    """What the cluster has to serve.

    Attributes:
        decode_per_card: decoding sequences of one card. context: their mean length.
        prompt: tokens of a new prompt. chunk_size: prefill tokens of a rank's step.
        capacity_factor: C of the expert buffers. skew: expert-level load CV; assumed.
        overlap: two micro-batches. kv_value_bytes: of one cached number.
    """

    decode_per_card: int = 64
    context: int = 4096
    prompt: int = 4096
    chunk_size: int = 2048
    capacity_factor: float = 1.25
    skew: float = 0.3
    overlap: bool = False
    kv_value_bytes: float = 2.0


@dataclass(frozen=True, slots=True)
class PlannedLayout:
    """One layout and its prediction; times are seconds.

    Attributes:
        layout: N, M, R. memory: of one card. refused: why it cannot be used, "" when it can.
        crosses: whether the EP group spans NVLink domains.
        busiest: load of the busiest rank over the mean.
        tpot, ttft: of a decode step, and of a prompt without a queue.
        tokens_per_second_per_card: output tokens.
        exchange_share: of the decode step that is all-to-all.
        layer_microseconds: decode step over its layers.
    """

    layout: Layout
    memory: CardMemory
    refused: str
    crosses: bool
    busiest: float = 1.0
    tpot: float = math.nan
    ttft: float = math.nan
    tokens_per_second_per_card: float = math.nan
    exchange_share: float = math.nan
    layer_microseconds: float = math.nan


@dataclass(frozen=True, slots=True)
class Plan:
    """All layouts, best first; refused ones last with their reason."""

    model: str
    topology: str
    cards: int
    demand: Demand
    layouts: tuple[PlannedLayout, ...] = field(default=())

    @property
    def best(self) -> PlannedLayout | None:
        """The first that can be used."""
        return next((each for each in self.layouts if not each.refused), None)


def plan(
    shape: ModelShape, where: Topology, cards: int, demand: Demand | None = None, *,
    engine: str = "megatron", redundant: tuple[int, ...] = (0, 32), tpot_limit: float = 0.05,
) -> Plan:  # fmt: skip
    """Enumerate the layouts of `cards` cards.

    Layouts within `tpot_limit` come first, by throughput; then the others, by TPOT.

    Raises:
        BadRequestError: cards out of bounds, or an unknown engine.
    """
    wanted = demand or Demand()
    if not 1 <= cards <= MAX_CARDS:
        raise BadRequestError(
            f"gpus {cards} is outside 1..{MAX_CARDS}", field="gpus", value=cards, bound=MAX_CARDS
        )
    if engine not in ENGINES:
        raise BadRequestError(
            f"engine {engine!r} is unknown; known: {', '.join(ENGINES)}",
            field="engine", value=engine,
        )  # fmt: skip
    found = [
        assess(shape, where, Layout(cards // tp, tp, extra, overlap=wanted.overlap), wanted,
               whole_experts=engine != "megatron")
        for tp in range(1, cards + 1) if cards % tp == 0 and tp <= where.domain
        for extra in redundant
    ]  # fmt: skip

    def order(each: PlannedLayout) -> tuple[bool, bool, float]:
        late = not each.tpot <= tpot_limit
        return bool(each.refused), late, each.tpot if late else -each.tokens_per_second_per_card

    return Plan(shape.name, where.name, cards, wanted, tuple(sorted(found, key=order)))


def assess(
    shape: ModelShape, where: Topology, layout: Layout, demand: Demand, *,
    whole_experts: bool = False,
) -> PlannedLayout:  # fmt: skip
    """Predict one layout, or say why it cannot be used."""
    sequences = demand.decode_per_card * layout.tp
    group_tokens = (sequences + demand.chunk_size) * layout.ranks
    memory = card_memory(
        shape, where, layout, kv_tokens=float(sequences * demand.context),
        group_tokens=float(group_tokens), capacity_factor=demand.capacity_factor,
        kv_value_bytes=demand.kv_value_bytes,
    )  # fmt: skip
    crosses = layout.cards > where.domain
    refused = _refusal(shape, layout, memory, whole_experts=whole_experts)
    if refused:
        return PlannedLayout(layout, memory, refused, crosses)
    busiest = _busiest(shape.experts, layout.ranks, layout.redundant, demand.skew)
    loads = np.full(shape.moe_layers, busiest)
    decode = step_time(
        shape, where, layout, Tokens(decode=sequences, context=demand.context), loads
    )
    chunk = Tokens(
        decode=sequences, prefill=min(demand.chunk_size, demand.prompt), context=demand.context,
        prompt=demand.prompt,
    )  # fmt: skip
    mixed = step_time(shape, where, layout, chunk, loads)
    return PlannedLayout(
        layout, memory, "", crosses, busiest=busiest, tpot=decode.total,
        ttft=math.ceil(demand.prompt / demand.chunk_size) * mixed.total,
        tokens_per_second_per_card=demand.decode_per_card / decode.total,
        exchange_share=decode.exchange / decode.total,
        layer_microseconds=decode.total / shape.layers * 1e6,
    )  # fmt: skip


def _refusal(shape: ModelShape, layout: Layout, memory: CardMemory, *, whole_experts: bool) -> str:
    slots = shape.experts + layout.redundant
    if layout.ranks > slots:
        return f"EP {layout.ranks} is over the {slots} expert slots"
    if slots % layout.ranks:
        return f"{slots} expert slots do not split over EP {layout.ranks}"
    if whole_experts and layout.tp > 1:
        return "this engine keeps an expert whole: TP inside an expert is 1"
    if shape.expert_size % layout.tp or shape.attention.heads % layout.tp:
        return f"expert size {shape.expert_size} or heads do not split over TP {layout.tp}"
    if not memory.fits:
        return f"{-memory.free / 1e9:.1f} GB over the {memory.capacity / 1e9:.0f} GB of a card"
    return ""


@lru_cache(maxsize=1024)
def _busiest(experts: int, ranks: int, redundant: int, skew: float) -> float:
    return busiest_rank(experts, ranks, redundant, skew)
