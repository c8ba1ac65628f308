"""Refits what the simulation takes from recordings: popularity, lengths, the day's shape.

`engine.simulation.routing.popularity` and `engine.simulation.serving.traffic` hold the results.
"""

import json
from collections import defaultdict
from itertools import combinations

import numpy as np
import numpy.typing as npt

from trimtab.bench.calibration import DATA, read

Floats = npt.NDArray[np.float64]
_OLMOE, _MIXTRAL = "OLMoE-1B-7B-0924", "Mixtral-8x7B-v0.1"
_COUNTED = {_OLMOE: "8", _MIXTRAL: "2"}


def recorded_counts(model: str) -> dict[tuple[str, str], Floats]:
    """(domain, layer) → counts [E] over all routed choices."""
    found: dict[tuple[str, str], dict[int, float]] = defaultdict(dict)
    for row in read("moe_routing_olmoe/expert_counts.csv"):
        if row["model"] == model and row["top_k_counted"] == _COUNTED[model]:
            found[row["domain"], row["layer"]][int(row["expert"])] = float(row["count"])
    return {
        key: np.array([counts[expert] for expert in sorted(counts)])
        for key, counts in found.items()
    }


def qwen_counts(condition: str) -> Floats:
    """Selection counts [256] of one condition of the recorded 256-expert model."""
    counts = np.zeros(256)
    for row in read("moe_routing_qwen35_256e/expert_selection_counts.csv"):
        if row["condition"] == condition:
            counts[int(row["expert"])] += float(row["selection_count"])
    return counts


def sigma(preset: str) -> float:
    """Mean over rows of the deviation of the log popularity."""
    if preset == "qwen3.5-256e":
        return float(np.log(qwen_counts("baseline") + 0.5).std())
    model = {"olmoe": _OLMOE, "mixtral-8x7b": _MIXTRAL}[preset]
    rows = [counts[counts > 0] for counts in recorded_counts(model).values()]
    return float(np.mean([np.log(row).std() for row in rows]))


def domain_correlation() -> float:
    """Mean correlation of log popularity between two domains of a layer, both models."""
    found = []
    for model in (_OLMOE, _MIXTRAL):
        counts = recorded_counts(model)
        for layer in sorted({layer for _, layer in counts}):
            rows = [np.log(np.maximum(c, 1)) for (_, at), c in counts.items() if at == layer]
            found += [np.corrcoef(a, b)[0, 1] for a, b in combinations(rows, 2)]
    return float(np.mean(found))


def lengths(name: str) -> tuple[float, float, float, float]:
    """Mean and deviation of the logarithm of prompt and output lengths."""
    if name == "long":
        text = (DATA / "llm_traces_mooncake" / "conversation_w1.jsonl").read_text("utf-8")
        rows = [json.loads(line) for line in text.splitlines()]
        pairs = [(row["input_length"], row["output_length"]) for row in rows]
    else:
        part = {"conversation": "conv", "code": "code"}[name]
        table = read(f"llm_traces_azure2023/azure_{part}_w1.csv")
        pairs = [(int(row["ContextTokens"]), int(row["GeneratedTokens"])) for row in table]
    logs = np.log(np.maximum(np.array(pairs, dtype=np.float64), 1.0))
    prompt, output = logs[:, 0], logs[:, 1]
    return float(prompt.mean()), float(prompt.std()), float(output.mean()), float(output.std())


def arrival_cv() -> float:
    """Inter-arrival CV of the DeepSeek-R1 service's clients, weighted by their rates."""
    rows = read("llm_workload_servegen_r1/deepseek_r1_client_rates.csv")
    rates = np.array([float(row["rate_rps"]) for row in rows])
    spreads = np.array([float(row["iat_cv"] or 1.0) for row in rows])
    return float(np.nansum(rates * spreads) / rates.sum())


def day_shape() -> tuple[tuple[float, float], ...]:
    """(cosine, sine) of the first two harmonics of the hourly rate over its mean."""
    hours = np.zeros(24)
    for row in read("llm_workload_servegen_r1/deepseek_r1_client_rates.csv"):
        hours[int(float(row["t_start_s"])) // 3600 % 24] += float(row["rate_rps"])
    wave = hours / hours.mean()
    angle = 2.0 * np.pi * (np.arange(24) + 0.5) / 24.0
    return tuple(
        (float(2 * (wave * np.cos(n * angle)).mean()), float(2 * (wave * np.sin(n * angle)).mean()))
        for n in (1, 2)
    )
