"""Decode step time over expert-parallel ranks and running sequences, measured on this machine.

Beside it stands the cost model's figure for the same step. Its CPU topology is assumed, not fitted,
and knows nothing of Python: the shape over ranks can be compared, the scale cannot.
"""

import asyncio
import statistics
from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from engine.config import REFERENCE_CHECKPOINT, EngineConfig
from engine.model.checkpoint.load import read_facts
from engine.model.spec import MLASpec, ModelSpec
from engine.simulation.cost.dense import Tokens
from engine.simulation.cost.shape import Attention, ModelShape
from engine.simulation.cost.step import Layout, step_time
from engine.simulation.cost.topology import topology
from trimtab.bench.decoding import decoding
from trimtab.bench.figure import Figure
from trimtab.bench.generation import text_workload

RANKS, SEQUENCES = (1, 2, 4), (8, 32, 64)
PROMPT_TOKENS, STEPS, SETTLING_STEPS = 128, 120, 10


def run() -> list[Figure]:
    """Milliseconds from token to token, over sockets; two ranks over gloo, too."""
    return [asyncio.run(measure(config, sequences)) for config, sequences in _points()]


def _points() -> Iterator[tuple[EngineConfig, int]]:
    for ranks in RANKS:
        for sequences in SEQUENCES:
            yield EngineConfig(ranks=ranks), sequences
    for sequences in SEQUENCES:
        yield EngineConfig(ranks=2, collectives="distributed"), sequences


async def measure(config: EngineConfig, sequences: int, steps: int = STEPS) -> Figure:
    """One engine, `sequences` of which decode: the median of `steps` steps."""
    workload = text_workload(
        sequences, PROMPT_TOKENS, PROMPT_TOKENS, steps + 2 * SETTLING_STEPS + 1
    )
    async with decoding(config, workload) as (_, ticks):
        times: list[float] = []
        while len(times) <= SETTLING_STEPS + steps and (time := await ticks.get()) is not None:
            times.append(time)
    gaps = sorted(1e3 * (after - before) for before, after in pairwise(times[SETTLING_STEPS:]))
    gloo = config.ranks > 1 and config.collectives == "distributed"
    modelled = 1e3 * predicted_seconds(config.ranks, sequences)
    return Figure(
        name=f"ep_curve.step_ms{'.gloo' if gloo else ''}.M{config.ranks}.S{sequences}",
        value=statistics.median(gaps), unit="ms", n=len(gaps),
        low=gaps[len(gaps) // 10], high=gaps[len(gaps) * 9 // 10],
        against=f"cost model, assumed CPU topology: {modelled:.3f} ms; interval is p10 to p90",
    )  # fmt: skip


def predicted_seconds(ranks: int, sequences: int) -> float:
    """The cost model's step for the reference checkpoint, balanced ranks."""
    shape = shape_of(read_facts(REFERENCE_CHECKPOINT).spec)
    tokens = Tokens(decode=sequences / ranks, context=PROMPT_TOKENS + STEPS / 2)
    balanced = np.ones(shape.moe_layers)
    return step_time(shape, topology("cpu-gloo"), Layout(ranks), tokens, balanced).total


def shape_of(spec: ModelSpec) -> ModelShape:
    """A latent-attention checkpoint as the cost model sees it, FP32."""
    attention = spec.attention
    if not isinstance(attention, MLASpec):
        raise TypeError(f"{spec.family} has no latent attention")
    return ModelShape(
        name=spec.family, layers=len(spec.layers), moe_layers=spec.num_moe_layers,
        hidden=spec.hidden, expert_size=spec.moe.expert_width, experts=spec.moe.num_experts,
        top_k=spec.moe.top_k, vocabulary=spec.vocabulary, shared_size=spec.shared_inner,
        dense_size=spec.inner, weight_bytes=4.0, has_bias=True,
        attention=Attention(
            attention.heads, attention.heads, attention.nope_dim, q_rank=attention.q_lora_rank or 0,
            kv_rank=attention.kv_lora_rank, rope_dim=attention.rope_dim,
            value_dim=attention.value_dim,
        ),
    )  # fmt: skip
