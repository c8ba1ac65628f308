"""Seconds of what is not an expert: attention, dense and shared feed-forward, head, TP all-reduce.

A roofline: the slower of reading bytes and multiplying, at assumed shares of the data-sheet rates.
TP all-reduce (ring): 2·(N - 1)/N·d·bytes a token, plus a start.
"""

from dataclasses import dataclass

from engine.simulation.cost.shape import ModelShape
from engine.simulation.cost.topology import Topology

MEMORY_SHARE = 0.75
"""Of the memory rate. Assumed (the fitted value of the decode expert kernel is 0.76)."""
COMPUTE_SHARE = 0.5
"""Of the dense peak. Assumed (the fitted values of expert kernels are 0.37 to 0.81)."""
LAYER_OVERHEAD = 15e-6
"""Norms, router, small kernels of one layer. Assumed."""
ALL_REDUCE_START = 12e-6
"""Assumed: NCCL's low-latency protocols start at about this."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """Tokens of one step on one rank.

    Attributes:
        decode, prefill: tokens of each phase.
        context: cached tokens that a decode token attends to, mean.
        prompt: mean length of the prompts being prefilled; a token attends to half of it.
    """

    decode: float
    prefill: float = 0.0
    context: float = 4096.0
    prompt: float = 4096.0

    @property
    def total(self) -> float:
        """All tokens of the rank's step."""
        return self.decode + self.prefill


def roofline(
    num_bytes: float, flops: float, shape: ModelShape, where: Topology, *, tp: int = 1
) -> float:
    """The slower of memory and arithmetic on each of `tp` cards."""
    peak = where.fp8_rate if shape.weight_bytes <= 1 else where.bf16_rate
    reading = num_bytes / (where.memory_rate * MEMORY_SHARE)
    return max(reading, flops / (peak * COMPUTE_SHARE)) / tp


def attention_seconds(
    tokens: Tokens, shape: ModelShape, where: Topology, *, tp: int = 1, kv_value_bytes: float = 2.0
) -> float:
    """One layer's attention on one rank: weights, KV reads of decode, scores of prefill."""
    attention = shape.attention
    weights = attention.parameters(shape.hidden)
    cached = tokens.decode * tokens.context * attention.kv_values * kv_value_bytes
    pairs = tokens.decode * tokens.context + tokens.prefill * tokens.prompt / 2
    flops = 2.0 * tokens.total * weights + 2.0 * pairs * attention.score_values
    return roofline(weights * shape.weight_bytes + cached, flops, shape, where, tp=tp)


def feed_forward_seconds(
    tokens: float, inner: int, shape: ModelShape, where: Topology, *, tp: int = 1
) -> float:
    """A dense or shared feed-forward of inner size `inner`, every token of the rank."""
    weights = 3 * shape.hidden * inner
    return roofline(weights * shape.weight_bytes, 2.0 * tokens * weights, shape, where, tp=tp)


def head_seconds(tokens: float, shape: ModelShape, where: Topology, *, tp: int = 1) -> float:
    """Logits of the tokens that are sampled."""
    weights = shape.vocabulary * shape.hidden
    return roofline(weights * 2.0, 2.0 * tokens * weights, shape, where, tp=tp)


def all_reduce_seconds(tokens: float, shape: ModelShape, where: Topology, *, tp: int) -> float:
    """One BF16 all-reduce over the `tp` cards of a rank."""
    if tp == 1:
        return 0.0
    rate = where.domain_rate * 0.8 if tp <= where.domain else where.network_rate * 0.8
    return ALL_REDUCE_START + 2.0 * (tp - 1) / tp * tokens * shape.hidden * 2.0 / rate
