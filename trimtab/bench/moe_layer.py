"""Our MoE layer against `transformers`' on equal weights, inputs and cores.

The DeepSeek-V3 layer: sigmoid router with bias, top-k, shared expert, FP32. The other side runs the
fastest of its own expert implementations for each size. Blocks of both sides alternate, and what is
timed is the CPU time of the one thread that both use, so that a busy machine disturbs it least.
"""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from contract.runtime_config import CapacityDomain, DispatchDtype, OverflowMode, OverflowPolicy
from engine.moe.context import CapacityPlan, MoEStepContext
from engine.moe.layer import MoELayer
from engine.moe.spec import MoESpec, RouterKind
from engine.moe.weights import from_output_first
from engine.parallel.groups import LocalGroup
from engine.telemetry.null_recorder import NullRecorder
from engine.worker.settings import keep_freed_memory
from trimtab.bench.figure import Figure

EXPERTS = (8, 128, 256)
TOKENS = (64, 512, 4096)
HIDDEN, WIDTH = 96, 16
"""Shape of the reference checkpoint's layers."""
BLOCKS = 15
BLOCK_SECONDS = 0.05
IMPLEMENTATIONS = ("eager", "grouped_mm", "batched_mm")
BATCHED_LIMIT = 64
"""`batched_mm` copies k experts' weights per token: hopeless beyond small steps."""

Step = Callable[[], Tensor]


@dataclass(frozen=True, slots=True)
class Pair:
    """The same layer twice: ours, and theirs by implementation."""

    ours: Step
    theirs: dict[str, Step]


def run() -> list[Figure]:
    """Speed of our layer over the fastest of theirs, for every E and T; one thread."""
    keep_freed_memory()  # as in a rank process; it spares both sides their page faults
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.inference_mode():
            return [_measure(experts, tokens) for experts in EXPERTS for tokens in TOKENS]
    finally:
        torch.set_num_threads(threads)


def build_pair(experts: int, tokens: int, *, hidden: int = HIDDEN, width: int = WIDTH) -> Pair:
    """One random layer of `experts` experts on `tokens` random tokens, on both sides."""
    from transformers import DeepseekV3Config
    from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3MoE

    torch.manual_seed(experts * 10_000 + tokens)
    top_k = min(8, experts // 4)
    config = DeepseekV3Config(
        hidden_size=hidden, moe_intermediate_size=width, n_routed_experts=experts,
        num_experts_per_tok=top_k, n_shared_experts=1, n_group=1, topk_group=1,
        norm_topk_prob=True, routed_scaling_factor=2.5,
    )  # fmt: skip
    module = DeepseekV3MoE(config).eval()
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=0.1)
    bias = torch.randn(1, experts) * 0.01
    module.gate.e_score_correction_bias.copy_(bias[0])
    x = torch.randn(tokens, hidden)
    return Pair(
        _our_step(module, x, bias, top_k),
        {name: _their_step(module, config, name, x) for name in IMPLEMENTATIONS
         if name != "batched_mm" or tokens <= BATCHED_LIMIT},
    )  # fmt: skip


def _our_step(module: Any, x: Tensor, bias: Tensor, top_k: int) -> Step:
    experts, shared = module.experts, module.shared_experts
    spec = MoESpec(
        hidden=x.shape[1], expert_width=experts.down_proj.shape[2], num_experts=bias.shape[1],
        top_k=top_k, router=RouterKind.GROUP_LIMITED, routed_scale=2.5,
    )  # fmt: skip
    weights = from_output_first(
        module.gate.weight, experts.gate_up_proj, experts.down_proj,
        torch.cat([shared.gate_proj.weight, shared.up_proj.weight]), shared.down_proj.weight,
    )  # fmt: skip
    layer = MoELayer(0, spec, weights, LocalGroup())
    context = MoEStepContext(
        plan=CapacityPlan(
            None, 8, OverflowMode.ENFORCED, OverflowPolicy.DROP, CapacityDomain.GLOBAL,
            DispatchDtype.NATIVE,
        ),
        bias=bias, lkg_bias=None, sampled=False,
        bucket_ids=torch.zeros(len(x), dtype=torch.int64),
        is_decode=torch.ones(len(x), dtype=torch.bool), recorder=NullRecorder(),
    )  # fmt: skip
    return lambda: layer.forward(x, context)


def _their_step(module: Any, config: Any, implementation: str, x: Tensor) -> Step:
    batch = x.unsqueeze(0)

    def step() -> Tensor:
        config._experts_implementation = implementation
        out: Tensor = module(batch)
        return out[0]

    return step


def _measure(experts: int, tokens: int) -> Figure:
    pair = build_pair(experts, tokens)
    steps = {"ours": pair.ours, **pair.theirs}
    repeats = {name: _repeats(step) for name, step in steps.items()}
    times: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(BLOCKS):
        for name, step in steps.items():
            times[name].append(_block(step, repeats[name]))
    best = min(pair.theirs, key=lambda name: statistics.median(times[name]))
    ratios = sorted(theirs / ours for theirs, ours in zip(times[best], times["ours"], strict=True))
    middle = statistics.median(times["ours"])
    return Figure(
        name=f"moe_layer.speed_ratio_vs_transformers.E{experts}.T{tokens}",
        value=statistics.median(ratios), unit="x",
        goal=1.5 if tokens == min(TOKENS) and experts >= 128 else 0.95, compare=">=",
        n=BLOCKS, low=_quantile(ratios, 0.1), high=_quantile(ratios, 0.9),
        against=f"transformers {best} {statistics.median(times[best]) * 1e3:.3f} ms, "
        f"ours {middle * 1e3:.3f} ms, d {HIDDEN}, f {WIDTH}, one thread",
    )  # fmt: skip


def _repeats(step: Step) -> int:
    step()
    once = _block(step, 1)
    return max(1, round(BLOCK_SECONDS / once))


def _block(step: Step, repeats: int) -> float:
    """Seconds of one step, averaged over a block."""
    started = time.thread_time()
    for _ in range(repeats):
        step()
    return (time.thread_time() - started) / repeats


def _quantile(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
