"""The cost model against measurements: fit on a part of the tables, error on the rest.

The committed constants are what is tested, so the figures hold for what the planner and the
simulation use. `calibration` refits them.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np

from engine.simulation.cost.exchange import (
    OPS,
    ExchangeSetting,
    low_latency_seconds,
    network_bytes,
    normal_seconds,
)
from engine.simulation.cost.exchange_fits import NORMAL
from engine.simulation.cost.expert import EXPERT_FITS
from engine.simulation.cost.topology import Topology
from trimtab.bench import calibration, expert_tables
from trimtab.bench.calibration import H100, H200, H800, Floats, Sample
from trimtab.bench.figure import Figure
from trimtab.errors import InputError

AGAINST = "held-out rows, measured"


def run() -> list[Figure]:
    """All figures.

    Raises:
        InputError: the tables are not beside the checkout.
    """
    if not calibration.DATA.exists():
        raise InputError(f"The recorded tables are not at {calibration.DATA}.")
    return [*_low_latency(), *_normal(), *_experts()]


def _figure(name: str, errors: Floats, *, goal: float | None, median: bool = False) -> Figure:
    value = float(np.median(errors) if median else errors.max())
    return Figure(
        f"cost_model.{name}", value, "ratio", goal, None if goal is None else "<=", len(errors),
        float(errors.min()), float(errors.max()), AGAINST,
    )  # fmt: skip


def _low_latency() -> list[Figure]:
    """Dispatch and combine together, as the goal is stated."""
    published = [calibration.published_low_latency(op) for op in OPS]
    errors = [
        abs(sum(_published_seconds(op, int(s.key)) for op in OPS) / (s.seconds + c.seconds) - 1)
        for s, c in zip(*published, strict=True) if s.held_out
    ]  # fmt: skip
    recorded = [calibration.recorded_low_latency(op) for op in OPS]
    h100 = np.concatenate([
        calibration.errors(samples, partial(_recorded_seconds, op))
        for op, samples in zip(OPS, recorded, strict=True)
    ])  # fmt: skip
    return [
        _figure("low_latency.max_error_ratio", np.array(errors), goal=0.15),
        _figure("low_latency.h100.median_error_ratio", h100, goal=None, median=True),
    ]


def _published_seconds(op: str, ranks: int) -> float:
    return low_latency_seconds(op, 128, ExchangeSetting(ranks, 7168, 256, 8), H800)


def _recorded_seconds(op: str, sample: Sample) -> float:
    ranks, tokens, hidden, top_k, experts = (int(part) for part in sample.key.split())
    return low_latency_seconds(op, tokens, ExchangeSetting(ranks, hidden, experts, top_k), H100)


def _normal() -> list[Figure]:
    errors: list[Floats] = []
    for op in OPS:
        errors += [
            calibration.errors(
                calibration.recorded_normal(op, nodes),
                partial(_normal_seconds, op, where=H100),
            )
            for nodes in (1, 2)
        ]  # fmt: skip
        errors.append(
            calibration.errors(calibration.published_normal(op), partial(_published_normal, op))
        )
    together = np.concatenate(errors)
    return [
        _figure("normal.max_error_ratio", together, goal=0.20),
        _figure("normal.median_error_ratio", together, goal=None, median=True),
    ]


def _normal_seconds(op: str, sample: Sample, where: Topology) -> float:
    ranks, tokens, hidden, top_k, experts = (int(part) for part in sample.key.split())
    return normal_seconds(op, tokens, ExchangeSetting(ranks, hidden, experts, top_k), where)


def _published_normal(op: str, sample: Sample) -> float:
    setting = ExchangeSetting(int(sample.key), 7168, 256, 8, node_limit=4)
    moved = network_bytes(op, 4096, setting, H800)
    return moved / (H800.network_rate * NORMAL["rdma", op].network_efficiency)


def _experts() -> list[Figure]:
    tables: list[tuple[str, Sequence[Sample], str, Topology]] = [
        ("sglang_decode", expert_tables.sglang("moe_generation"), "masked", H100),
        ("sglang_prefill", expert_tables.sglang("moe_context"), "contiguous", H100),
        ("tensorrt_llm", expert_tables.tensorrt_llm(), "cutlass", H200),
    ]
    return [
        _figure(
            f"{name}.median_error_ratio",
            calibration.errors(samples, partial(_expert, kernel=kernel, where=where)),
            goal=None, median=True,
        )
        for name, samples, kernel, where in tables
    ]  # fmt: skip


def _expert(sample: Sample, kernel: str, where: Topology) -> float:
    fit = EXPERT_FITS[kernel]
    start, weights, flops = sample.terms
    reading = weights / (where.memory_rate * fit.memory_efficiency)
    return start * fit.start + reading + flops / (where.fp8_rate * fit.compute_efficiency)
