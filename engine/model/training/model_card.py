"""The README.md of a trained checkpoint, every number measured on the files beside it."""

import platform
from dataclasses import dataclass
from pathlib import Path

from engine.model.training.corpus import HELD_OUT_ONE_IN, Domain, corpus_hash
from engine.model.training.evaluation import WINDOW_TOKENS, Evaluation
from engine.model.training.recipe import Recipe
from engine.model.training.shape import Shape
from engine.model.training.stream import SHARES


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """What a run did: optimiser steps, tokens seen, CPU minutes of one process."""

    recipe: Recipe
    steps: int
    tokens: int
    cpu_minutes: float


_TEMPLATE = Path(__file__).with_name("model_card.md")


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
    text = _TEMPLATE.read_text(encoding="utf-8").format(
        layers=shape.num_hidden_layers, dense=shape.first_k_dense_replace, hidden=shape.hidden_size,
        experts=shape.n_routed_experts, width=shape.moe_intermediate_size,
        top_k=shape.num_experts_per_tok, latent=shape.kv_lora_rank,
        bos=shape.vocab_size - 3, eos=shape.vocab_size - 2, pad=shape.vocab_size - 1,
        megabytes=(checkpoint / "model.safetensors").stat().st_size / 1e6,
        one_in=HELD_OUT_ONE_IN, window=WINDOW_TOKENS, quality=_quality(evaluation),
        load=_load(evaluation), mixed_bpb=evaluation.mixed_bits_per_byte,
        zeroed_bpb=evaluation.zeroed_bits_per_byte, command=command, steps=run.steps,
        tokens=run.tokens / 1e6, cpu_minutes=run.cpu_minutes,
        processes=recipe.processes, rate=recipe.learning_rate,
        decay=recipe.decay_from, speed=recipe.bias_speed, late=recipe.bias_speed_late,
        late_from=recipe.late_from,
        shares=", ".join(f"{name} {share:.2f}" for name, share in SHARES.items()),
        python=platform.python_version(),
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
