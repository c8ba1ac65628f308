"""Refits the cost model's constants on the recorded tables: half to fit on, the rest to report.

Relative least squares with non-negative coefficients. The tables are a sibling folder of the
checkout; without it there is nothing to refit, and the committed constants stand.
"""

import csv
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.optimize import nnls

from engine.simulation.cost.exchange import ExchangeSetting, network_bytes
from engine.simulation.cost.exchange_fits import LowLatencyFit, NormalFit
from engine.simulation.cost.expert import ExpertFit
from engine.simulation.cost.topology import TOPOLOGIES
from engine.simulation.cost.volume import distinct_groups, num_domains, off_domain_share

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data"
Row = dict[str, str]
Floats = npt.NDArray[np.float64]

H100, H800, H200 = (TOPOLOGIES[name] for name in ("hgx-h100", "hgx-h800", "hgx-h200"))
PUBLISHED_LOW_LATENCY_FIT = (8, 32, 128)
"""EP sizes of the published low-latency table that are fitted on; the others are reported."""
PUBLISHED_NORMAL_FIT = (16, 32)
NORMAL_TOKENS = (64, 16384)
"""Tokens a rank between which the normal kernels are fitted: prefill steps."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One measured time with the terms of its model.

    Attributes:
        seconds: measured.
        terms: multiply the coefficients.
        held_out: reported, not fitted on.
        key: what it is, for reports.
    """

    seconds: float
    terms: tuple[float, ...]
    held_out: bool
    key: str = ""


def solve(samples: Sequence[Sample]) -> Floats:
    """Coefficients from the samples that are not held out."""
    used = [sample for sample in samples if not sample.held_out]
    terms = np.array([sample.terms for sample in used])
    seconds = np.array([sample.seconds for sample in used])
    coefficients: Floats = nnls(terms / seconds[:, None], np.ones(len(seconds)))[0]
    return coefficients


def read(path: str) -> list[Row]:
    """Rows of one table of the data folder."""
    with (DATA / path).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def published(kernel: str, op: str) -> list[Row]:
    """DeepEP V1's published rows of a kernel family."""
    table = read("comm_measurements/published_alltoall_tables.csv")
    return [
        row for row in table
        if row["source"].startswith("DeepEP docs") and (row["kernel"], row["op"]) == (kernel, op)
    ]  # fmt: skip


def _low_latency_terms(
    op: str, ranks: int, tokens: int, hidden: int, top_k: int
) -> tuple[float, ...]:
    setting = ExchangeSetting(ranks, hidden, 256, top_k)
    moved = tokens * top_k * setting.row(op)
    outside = off_domain_share(ranks, 8)
    return 1.0, math.log2(num_domains(ranks, 8)), moved * (1 - outside), moved * outside


def published_low_latency(op: str) -> list[Sample]:
    """128 tokens, hidden 7168, k = 8; EP 8 to 256."""
    return [
        Sample(
            float(row["latency_us"]) * 1e-6,
            _low_latency_terms(op, int(row["ep_size"]), 128, 7168, 8),
            int(row["ep_size"]) not in PUBLISHED_LOW_LATENCY_FIT, row["ep_size"],
        )
        for row in published("deepep_low_latency", op)
    ]  # fmt: skip


def recorded_low_latency(op: str) -> list[Sample]:
    """H100, one to eight nodes, 1 to 2,048 tokens; every second row is held out."""
    rows = [
        r for r in read("comm_measurements/deepep_low_latency.csv") if r["system"] == "h100_sxm"
    ]
    return [
        Sample(
            float(row[f"{op}_avg_t_us"]) * 1e-6,
            _low_latency_terms(op, 8 * int(row["node_num"]), *_sizes(row)), i % 2 == 1, _key(row),
        )
        for i, row in enumerate(rows)
    ]  # fmt: skip


def _key(row: Row) -> str:
    """Ranks, tokens, hidden, k, E."""
    tokens, hidden, top_k = _sizes(row)
    return f"{8 * int(row['node_num'])} {tokens} {hidden} {top_k} {row['num_experts']}"


def _sizes(row: Row) -> tuple[int, int, int]:
    return int(row["num_token"]), int(row["hidden_size"]), int(row["num_topk"])


def low_latency_fit(samples: Sequence[Sample], domain_rate: float) -> LowLatencyFit:
    """The constants of one operation."""
    start, doubling, inside, outside = solve(samples)
    return LowLatencyFit(
        start, doubling, 1 / (max(inside, 1e-30) * domain_rate),
        1 / (max(outside, 1e-30) * H100.network_rate),
    )  # fmt: skip


def recorded_normal(op: str, nodes: int) -> list[Sample]:
    """H100 with 20 and 24 SMs; every second row is held out."""
    low, high = NORMAL_TOKENS
    rows = [
        row for row in read("comm_measurements/deepep_normal.csv")
        if int(row["node_num"]) == nodes and row[f"{op}_sms"] in {"20", "24"}
        and low <= int(row["num_token"]) <= high
    ]  # fmt: skip
    terms = _inside_terms if nodes == 1 else _network_terms
    return [
        Sample(float(row[f"{op}_transmit_us"]) * 1e-6, terms(op, row, nodes), i % 2 == 1, _key(row))
        for i, row in enumerate(rows)
    ]


def _inside_terms(op: str, row: Row, nodes: int) -> tuple[float, ...]:
    tokens, hidden, top_k = _sizes(row)
    ranks, experts = 8 * nodes, int(row["num_experts"])
    size = ExchangeSetting(ranks, hidden, experts, top_k).row(op)
    rows = tokens * distinct_groups(experts, top_k, ranks) * (1 - 1 / ranks)
    return 1.0, float(hidden), rows, rows * size, tokens * size


def _network_terms(op: str, row: Row, nodes: int) -> tuple[float, ...]:
    tokens, hidden, top_k = _sizes(row)
    setting = ExchangeSetting(8 * nodes, hidden, int(row["num_experts"]), top_k)
    moved = network_bytes(op, tokens, setting, H100)
    return 1.0, moved, math.sqrt(moved)


def published_normal(op: str) -> list[Sample]:
    """Across nodes on H800, at most four of them a token; bandwidths at 4,096 tokens."""
    samples = []
    for row in published("deepep_normal", op):
        ranks = int(row["ep_size"])
        if ranks == 8:
            continue
        setting = ExchangeSetting(ranks, 7168, 256, 8, node_limit=4)
        moved = network_bytes(op, 4096, setting, H800)
        seconds = moved / (float(row["bandwidth_GBps"]) * 1e9)
        samples.append(Sample(seconds, (moved,), ranks not in PUBLISHED_NORMAL_FIT, row["ep_size"]))
    return samples


def normal_fit(op: str) -> NormalFit:
    """The constants of one operation on H100."""
    start, per_hidden, per_row, per_byte, copied = solve(recorded_normal(op, 1))
    network_start, crossing, fill = solve(recorded_normal(op, 2))
    return NormalFit(
        start, per_hidden, per_row, copied, 1 / (max(per_byte, 1e-30) * H100.domain_rate),
        1 / (max(crossing, 1e-30) * H100.network_rate), network_start, fill,
    )  # fmt: skip


def published_normal_efficiency(op: str) -> float:
    """Share of the network rate that DeepEP V1 reached across nodes."""
    return float(1 / (solve(published_normal(op))[0] * H800.network_rate))


def expert_fit(samples: Sequence[Sample], memory_rate: float, peak: float) -> ExpertFit:
    """The constants of one grouped GEMM."""
    start, reading, computing = solve(samples)
    return ExpertFit(
        start, 1 / (max(reading, 1e-30) * memory_rate), 1 / (max(computing, 1e-30) * peak)
    )


def errors(samples: Sequence[Sample], predict: Callable[[Sample], float]) -> Floats:
    """|predicted ÷ measured - 1| of the held-out samples."""
    return np.array([abs(predict(s) / s.seconds - 1) for s in samples if s.held_out])
