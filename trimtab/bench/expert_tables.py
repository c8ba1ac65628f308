"""The recorded MoE kernel times with the load of the rank that was measured.

SGLang (H100): uniform rows have T·k/M rows a rank; `power_law_a` rows are the busiest rank of loads
drawn from a power law on [1, 0.8·T] (as their source generates them). TensorRT-LLM (H200): the rank
is the one whose distinct tokens are given, from which its rows follow.
"""

import numpy as np

from engine.simulation.cost.expert import active_experts
from trimtab.bench.calibration import Row, Sample, read

_DRAWS = 20
_HIDDEN, _INNER = 7168, 2048
_EXPERT_BYTES = 3 * _HIDDEN * _INNER
_FLOPS = 6 * _HIDDEN * _INNER


def sglang(op: str) -> list[Sample]:
    """`moe_generation` (masked) or `moe_context` (contiguous); every second row is held out."""
    generator = np.random.default_rng(0)
    rows = [r for r in read("moe_kernel_perf/sglang_wideep_moe.csv") if r["op_name"] == op]
    return [_sample(row, *_sglang_load(row, generator), i) for i, row in enumerate(rows)]


def tensorrt_llm() -> list[Sample]:
    """Every second row is held out."""
    rows = read("moe_kernel_perf/trtllm_wideep_moe_eplb_vs_not.csv")
    return [_sample(row, *_tensorrt_load(row), i) for i, row in enumerate(rows)]


def _sample(row: Row, rows: float, active: float, index: int) -> Sample:
    return Sample(
        float(row["latency_ms"]) * 1e-3, (1.0, active * _EXPERT_BYTES, rows * _FLOPS),
        index % 2 == 1, row["distribution"],
    )  # fmt: skip


def _sglang_load(row: Row, generator: np.random.Generator) -> tuple[float, float]:
    tokens, experts, top_k, ranks = _sizes(row)
    if row["distribution"] == "uniform":
        rows = tokens * top_k / ranks
        return rows, min(experts / ranks, rows)
    alpha = float(row["distribution"].removeprefix("power_law_"))
    low, high = 1.0, max(0.8 * tokens, 2.0)
    drawn = generator.random((_DRAWS, experts))
    span = high ** (1 - alpha) - low ** (1 - alpha)
    loads = (span * drawn + low ** (1 - alpha)) ** (1 / (1 - alpha))
    loads = np.minimum(loads / loads.sum(1, keepdims=True) * tokens * top_k, tokens)
    by_rank = loads.reshape(_DRAWS, ranks, -1)
    busiest = by_rank[np.arange(_DRAWS), by_rank.sum(2).argmax(1)]
    return float(busiest.sum(1).mean()), float((1 - np.exp(-busiest)).sum(1).mean())


def _tensorrt_load(row: Row) -> tuple[float, float]:
    tokens, _, top_k, ranks = _sizes(row)
    seen = min(int(row["rank0_num_tokens"]), tokens - 0.5)
    share = 1 - (1 - seen / tokens) ** (1 / top_k)
    rows = tokens * top_k * share
    return rows, min(active_experts(int(row["num_slots"]) / ranks, rows), rows)


def _sizes(row: Row) -> tuple[int, int, int, int]:
    return (
        int(row["num_tokens"]), int(row["num_experts"]), int(row["topk"]), int(row["moe_ep_size"])
    )  # fmt: skip
