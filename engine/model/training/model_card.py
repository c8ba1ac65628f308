"""The README.md of a trained checkpoint, every number measured on the files beside it."""

import platform
from dataclasses import dataclass
from pathlib import Path

from engine.model.training.corpus import HELD_OUT_ONE_IN, Domain, corpus_hash
from engine.model.training.evaluation import WINDOW_TOKENS, Evaluation
from engine.model.training.recipe import Recipe
from engine.model.training.shape import Shape


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """What a run did: optimiser steps, tokens seen, wall minutes."""

    recipe: Recipe
    steps: int
    tokens: int
    minutes: float


_CARD = """\
# The reference checkpoint

A byte-level Mixture-of-Experts language model in the shape of DeepSeek-V3, small enough to serve on
two CPU cores: {layers} layers (the first {dense} dense), width {hidden}, {experts} routed experts of
width {width} with top-{top_k} and one shared expert in each MoE layer, sigmoid gate with a
selection-only bias (`e_score_correction_bias`), latent attention (rank {latent}). Token ids 0–255 are
bytes; {bos}, {eos} and {pad} are beginning, end and padding. Hugging Face layout, `deepseek_v3`,
FP32, {megabytes:.1f} MB.

It exists so that Trimtab can be shown and tested on a router that real text has shaped. It writes
text that looks like Python, like its manual, or like a table; what that text says means nothing.

## Held-out text

One document in {one_in} is never trained on. Windows of {window} bytes, every byte predicted, served
by the engine without capacity.

{quality}

Bits per byte; `zlib -9` compresses a domain's held-out documents in one stream.

## How the experts load

Debiased coefficient of variation of the loads of one layer's {experts} experts (what exceeds the
spread of independent tokens), on the same text. "Mixed" weighs the domains equally. Zeroing the bias
is the plainest fault: the same weights, no balance.

{load}

Over all held-out bytes the loss is {mixed_bpb:.3f} bits per byte with the trained bias and
{zeroed_bpb:.3f} with none: a router can lose its balance while answers hardly change.

## How it was made

`{command}`: {steps} steps, {tokens:.1f} M tokens, {minutes:.1f} minutes on this machine
({machine}), {processes} one-thread processes, seed {seed}. AdamW at {rate:g} with warm-up and a linear
decay from {decay:.0%} of the run; the bias moves by u = {speed:g} a step against the sign of each
expert's excess load (auxiliary-loss-free balancing), by {late:g} from {late_from:.0%} on. Windows of
256, 512 and 1,024 bytes.

The text is CPython {python}'s own standard library: its sources, its docstrings and manual topics,
its character tables and calendars ({bytes:.1f} MB, SHA-256 of the corpus `{corpus}`). Another Python
gives another corpus and other numbers. `probe.txt` quotes about a kilobyte of held-out text, for the
engine's probe. CPython is under the PSF License; these weights are under this repository's.

## What it is not for

Anything but exercising an engine. It knows nothing, follows no instruction, and was checked for
nothing beyond the numbers above.
"""


def write_card(
    checkpoint: Path,
    *,
    shape: Shape,
    run: TrainingRun,
    evaluation: Evaluation,
    domains: tuple[Domain, ...],
    command: str,
) -> None:
    """Write README.md into the checkpoint's folder."""
    recipe = run.recipe
    text = _CARD.format(
        layers=shape.num_hidden_layers, dense=shape.first_k_dense_replace, hidden=shape.hidden_size,
        experts=shape.n_routed_experts, width=shape.moe_intermediate_size,
        top_k=shape.num_experts_per_tok, latent=shape.kv_lora_rank,
        bos=shape.vocab_size - 3, eos=shape.vocab_size - 2, pad=shape.vocab_size - 1,
        megabytes=(checkpoint / "model.safetensors").stat().st_size / 1e6,
        one_in=HELD_OUT_ONE_IN, window=WINDOW_TOKENS, quality=_quality(evaluation),
        load=_load(evaluation), mixed_bpb=evaluation.mixed_bits_per_byte,
        zeroed_bpb=evaluation.zeroed_bits_per_byte, command=command, steps=run.steps,
        tokens=run.tokens / 1e6, minutes=run.minutes, machine=platform.machine(),
        processes=recipe.processes, seed=recipe.seed, rate=recipe.learning_rate,
        decay=recipe.decay_from, speed=recipe.bias_speed, late=recipe.bias_speed_late,
        late_from=recipe.late_from, python=platform.python_version(),
        bytes=sum(len(doc.text) for domain in domains for doc in domain.train) / 1e6,
        corpus=corpus_hash(domains),
    )  # fmt: skip
    (checkpoint / "README.md").write_text(text, encoding="utf-8")


def _quality(evaluation: Evaluation) -> str:
    rows = ["| domain | bytes | model | zlib -9 |", "|---|---|---|---|"]
    rows += [
        f"| {name} | {each.bytes:,} | {each.bits_per_byte:.2f} | {each.zlib_bits_per_byte:.2f} |"
        for name, each in evaluation.domains.items()
    ]
    return "\n".join(rows)


def _load(evaluation: Evaluation) -> str:
    layers = range(len(evaluation.mixed_cv))
    rows = [
        "| text | " + " | ".join(f"MoE layer {layer}" for layer in layers) + " |",
        "|---" * (len(layers) + 1) + "|",
    ]
    lines = {name: each.load_cv for name, each in evaluation.domains.items()}
    lines |= {"mixed": evaluation.mixed_cv, "mixed, bias zeroed": evaluation.zeroed_cv}
    rows += [
        f"| {name} | " + " | ".join(f"{value:.2f}" for value in values) + " |"
        for name, values in lines.items()
    ]
    return "\n".join(rows)
