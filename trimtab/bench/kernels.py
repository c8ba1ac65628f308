"""Every kernel on this machine's device: what the public function runs, and what it takes.

On CUDA the Triton kernels against their torch references; elsewhere the torch path alone, since
Triton's interpreter is for tests. Shapes are those of a 128-expert, top-8 layer at 512 tokens.
"""

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

from kernels import (
    expert_histogram,
    fp8_quantise,
    grouped_gemm,
    permute,
    topk_gating,
    weighted_combine,
)
from kernels.backend import choose_backend
from trimtab.bench.figure import Figure

TOKENS, TOP_K, EXPERTS, HIDDEN, WIDTH, BUCKETS = 512, 8, 128, 256, 64, 8
REPEATS = 30

Call = Callable[[], Any]


def run() -> list[Figure]:
    """Microseconds of one call of each op, median of `REPEATS`."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    backend = choose_backend(device)
    figures: list[Figure] = []
    with torch.inference_mode():
        for name, (public, reference) in _ops(device).items():
            times = _microseconds(public, device)
            against = backend.reason
            if backend.name == "triton":
                plain = statistics.median(_microseconds(reference, device))
                against += f"; torch reference {plain:.1f} µs"
            figures.append(
                Figure(
                    name=f"kernels.{name}.time", value=statistics.median(times), unit="µs",
                    n=REPEATS, low=min(times), high=max(times), against=against,
                )
            )  # fmt: skip
    return figures


def _ops(device: torch.device) -> dict[str, tuple[Call, Call]]:
    """By name, the public function and the reference on the same random operands."""
    torch.manual_seed(0)
    logits = torch.randn(TOKENS, EXPERTS, device=device)
    bias = torch.randn(EXPERTS, device=device) * 0.1
    ids, gates = topk_gating.topk_gating(logits, bias, TOP_K, sigmoid=True, renormalise=True)
    buckets = torch.arange(TOKENS, device=device) % BUCKETS
    counts = torch.zeros(BUCKETS, EXPERTS, dtype=torch.int64, device=device)
    x = torch.randn(TOKENS, HIDDEN, device=device)
    order, place, ends = permute.sort_by_expert(ids, EXPERTS)
    rows = permute.permute(x, order, TOP_K)
    weights = torch.randn(EXPERTS, HIDDEN, 2 * WIDTH, device=device)

    def pair(op: Any, name: str, *operands: Any, **options: Any) -> tuple[Call, Call]:
        public, reference = getattr(op, name), getattr(op.reference, name)
        return (lambda: public(*operands, **options)), (lambda: reference(*operands, **options))

    return {
        "expert_histogram": pair(expert_histogram, "expert_histogram", ids, buckets, counts),
        "topk_gating": pair(
            topk_gating, "topk_gating", logits, bias, TOP_K, sigmoid=True, renormalise=True
        ),
        "sort_by_expert": pair(permute, "sort_by_expert", ids, EXPERTS),
        "permute": pair(permute, "permute", x, order, TOP_K),
        "grouped_gemm": pair(grouped_gemm, "grouped_gemm", rows, weights, ends),
        "weighted_combine": pair(weighted_combine, "weighted_combine", rows, place, gates),
        "fp8_quantise": pair(fp8_quantise, "quantise", rows),
    }


def _microseconds(call: Call, device: torch.device) -> list[float]:
    times: list[float] = []
    for _ in range(REPEATS + 3):
        started = time.perf_counter()
        call()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        times.append((time.perf_counter() - started) * 1e6)
    return times[3:]
