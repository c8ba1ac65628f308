"""Output tokens per second at concurrency 32 against `transformers`, equal weights, one core.

One core holds everything of each side: for ours the rank, the scheduler, telemetry and the reader
of the tokens. Runs of both sides alternate, so that a busy machine slows both.
"""

import asyncio
import importlib
import statistics
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from engine.config import REFERENCE_CHECKPOINT
from trimtab.bench.figure import Figure
from trimtab.bench.generation import (
    OurEngine,
    Transformers,
    Workload,
    agreement,
    one_core,
    text_workload,
)
from trimtab.errors import InputError

NAME = "engine.tokens_per_s_ratio_vs_transformers"
CONCURRENCY, SHORTEST, LONGEST, OUTPUT_TOKENS = 32, 64, 192, 128
PAIRS = 7
EXPERT_IMPLEMENTATIONS = ("eager", "grouped_mm")
GOAL = 2.0

Run = Callable[[Workload], tuple[float, list[list[int]]]]


@dataclass(frozen=True, slots=True)
class Rival:
    """One way in which `transformers` could run the workload."""

    name: str
    run: Run


def run() -> list[Figure]:
    """The reference checkpoint, and a Qwen3-MoE of equal size with random weights.

    Raises:
        InputError: `transformers` is not installed.
    """
    try:
        library: Any = importlib.import_module("transformers")
    except ImportError:
        raise InputError("transformers is not installed: pip install 'trimtab[dev]'") from None
    library.utils.logging.set_verbosity_error()
    library.utils.logging.disable_progress_bar()
    workload = text_workload(CONCURRENCY, SHORTEST, LONGEST, OUTPUT_TOKENS)
    with one_core(), tempfile.TemporaryDirectory(prefix="trimtab-bench-") as folder:
        qwen3 = save_qwen3_moe(Path(folder) / "qwen3-moe")
        return [
            compare(NAME, REFERENCE_CHECKPOINT, workload, continuous_batching=False),
            compare(f"{NAME}.qwen3_moe", qwen3, workload, continuous_batching=True),
        ]


def save_qwen3_moe(folder: Path) -> Path:
    """A Qwen3-MoE with the reference checkpoint's vocabulary, layers, widths and experts."""
    library: Any = importlib.import_module("transformers")
    like = library.AutoConfig.from_pretrained(REFERENCE_CHECKPOINT)
    heads = like.num_attention_heads
    config = library.Qwen3MoeConfig(
        vocab_size=like.vocab_size, hidden_size=like.hidden_size,
        intermediate_size=like.intermediate_size, num_hidden_layers=like.num_hidden_layers,
        num_attention_heads=heads, num_key_value_heads=1, head_dim=like.hidden_size // heads,
        num_experts=like.n_routed_experts, num_experts_per_tok=like.num_experts_per_tok,
        moe_intermediate_size=like.moe_intermediate_size, norm_topk_prob=True,
        max_position_embeddings=like.max_position_embeddings, tie_word_embeddings=False,
        eos_token_id=like.eos_token_id, bos_token_id=like.bos_token_id,
    )  # fmt: skip
    torch.manual_seed(0)
    library.Qwen3MoeForCausalLM(config).save_pretrained(folder)
    return folder


def compare(
    name: str, checkpoint: Path, workload: Workload, *, continuous_batching: bool,
    pairs: int = PAIRS,
) -> Figure:  # fmt: skip
    """Ours over the fastest of theirs, alternating runs after a warm-up of each."""
    with asyncio.Runner() as runner:
        ours = OurEngine(checkpoint, runner)
        ours.start()
        try:
            _, our_tokens = ours.run(workload)
            rivals = _rivals(checkpoint, continuous_batching=continuous_batching)
            warm = {rival.name: _warm(rival, workload) for rival in rivals}
            best = min(rivals, key=lambda rival: warm[rival.name])
            times: list[tuple[float, float]] = []
            their_tokens: list[list[int]] = []
            for _ in range(pairs):
                theirs, their_tokens = best.run(workload)
                times.append((theirs, ours.run(workload)[0]))
        finally:
            ours.stop()
    ratios = sorted(theirs / mine for theirs, mine in times)
    per_s = [workload.total_tokens / statistics.median(side) for side in zip(*times, strict=True)]
    lengths = [len(prompt) for prompt in workload.prompts]
    others = ", ".join(
        f"{rival} {workload.total_tokens / seconds:,.0f}" for rival, seconds in warm.items()
    )
    return Figure(
        name=name, value=statistics.median(ratios), unit="x", goal=GOAL, compare=">=",
        n=pairs, low=ratios[0], high=ratios[-1],
        against=f"ours {per_s[1]:,.0f} tokens/s, transformers {best.name} {per_s[0]:,.0f} (warm-up:"
        f" {others}); {len(lengths)} prompts of {min(lengths)}-{max(lengths)} tokens, "
        f"{workload.output_tokens} out, greedy, FP32, one core a side; equal tokens "
        f"{agreement(our_tokens, their_tokens):.1%}",
    )  # fmt: skip


def _rivals(checkpoint: Path, *, continuous_batching: bool) -> list[Rival]:
    models = {each: Transformers(checkpoint, each) for each in EXPERT_IMPLEMENTATIONS}
    rivals = [Rival(f"generate ({each})", model.generate) for each, model in models.items()]
    if continuous_batching:
        name = EXPERT_IMPLEMENTATIONS[-1]
        rivals.append(Rival(f"continuous batching ({name})", models[name].continuous_batching))
    return rivals


def _warm(rival: Rival, workload: Workload) -> float:
    """Seconds of the whole workload, after a short run that no one counts."""
    short = Workload(workload.prompts, 4)
    rival.run(short)
    return rival.run(workload)[0]
