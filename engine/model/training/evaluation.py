"""What a written checkpoint is worth on held-out text: bits per byte, and how its experts load."""

import math
import zlib
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from contract.runtime_config import CapacityDomain, DispatchDtype, OverflowMode, OverflowPolicy
from engine.model.checkpoint.load import load_model, read_facts
from engine.model.decoder import Decoder
from engine.model.teacher_forced import teacher_forced_logits
from engine.model.training.corpus import Domain
from engine.model.training.stream import join
from engine.moe.context import CapacityPlan, MoEStepContext
from engine.parallel.groups import LocalGroup
from engine.telemetry.null_recorder import NullRecorder

WINDOW_TOKENS = 1024


class LoadCounter(NullRecorder):
    """Counts assignments by layer and expert, int64 [MoE layers, E]."""

    def __init__(self, layers: int, experts: int) -> None:
        self.loads = torch.zeros(layers, experts, dtype=torch.int64)

    def routed(self, layer: int, expert_ids: Tensor, bucket_ids: Tensor, is_decode: Tensor) -> None:
        """Count one step of one layer."""
        del bucket_ids, is_decode  # one text at a time, all of it prefill
        self.loads[layer] += expert_ids.flatten().bincount(minlength=self.loads.shape[1])


@dataclass(frozen=True, slots=True)
class Measured:
    """One domain's held-out text.

    Attributes:
        bytes: of text.
        bits_per_byte: of the model; zlib_bits_per_byte: of `zlib -9` over the same bytes.
        load_cv: debiased coefficient of variation of the experts' loads, by MoE layer.
    """

    bytes: int
    bits_per_byte: float
    zlib_bits_per_byte: float
    load_cv: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Every domain, and all of them together with the bias as trained and with none."""

    domains: dict[str, Measured]
    mixed_cv: tuple[float, ...]
    mixed_bits_per_byte: float
    zeroed_cv: tuple[float, ...]
    zeroed_bits_per_byte: float


def evaluate(checkpoint: Path, domains: tuple[Domain, ...]) -> Evaluation:
    """Run the served model over all held-out text, in windows of `WINDOW_TOKENS`, dropless."""
    decoder = load_model(
        checkpoint, group=LocalGroup(), device=torch.device("cpu"), dtype=torch.float32
    )
    bias = read_facts(checkpoint).bias
    trained = torch.from_numpy(bias) if bias is not None else None
    runs = {domain.name: _run(decoder, trained, domain) for domain in domains}
    zeroed = {domain.name: _run(decoder, None, domain) for domain in domains}
    sizes = {domain.name: sum(len(doc.text) for doc in domain.held_out) for domain in domains}
    total = sum(sizes.values())
    return Evaluation(
        domains={
            domain.name: Measured(
                bytes=sizes[domain.name],
                bits_per_byte=runs[domain.name].bits / sizes[domain.name],
                zlib_bits_per_byte=zlib_bits(domain) / sizes[domain.name],
                load_cv=_cv(runs[domain.name].loads, decoder),
            )
            for domain in domains
        },
        mixed_cv=_cv(_evenly(list(runs.values())), decoder),
        mixed_bits_per_byte=sum(run.bits for run in runs.values()) / total,
        zeroed_cv=_cv(_evenly(list(zeroed.values())), decoder),
        zeroed_bits_per_byte=sum(run.bits for run in zeroed.values()) / total,
    )


def zlib_bits(domain: Domain) -> int:
    """Size in bits of the held-out documents compressed together."""
    text = b"".join(document.text for document in domain.held_out)
    return 8 * len(zlib.compress(text, 9))


def debiased_cv(loads: npt.NDArray[np.float64], top_k: int) -> float:
    """√max(0, CV² − (E − k) ÷ (T·k)): what exceeds the spread of independent tokens."""
    experts, assignments = len(loads), float(loads.sum())
    cv = float(loads.std() / loads.mean())
    return math.sqrt(max(0.0, cv * cv - (experts - top_k) / assignments))


@dataclass(frozen=True, slots=True)
class _Run:
    bits: float
    loads: Tensor


def _run(decoder: Decoder, bias: Tensor | None, domain: Domain) -> _Run:
    counter = LoadCounter(decoder.spec.num_moe_layers, decoder.spec.moe.num_experts)
    context = replace(_dropless(bias), recorder=counter)
    stream = join(domain.held_out).astype(np.int64)
    nats = 0.0
    for start in range(0, len(stream) - 1, WINDOW_TOKENS):
        window = stream[start : start + WINDOW_TOKENS + 1]
        logits = teacher_forced_logits(decoder, context, window[:-1].tolist())
        nats += float(
            functional.cross_entropy(logits, torch.from_numpy(window[1:]), reduction="sum")
        )
    return _Run(nats / math.log(2), counter.loads)


def _dropless(bias: Tensor | None) -> MoEStepContext:
    return MoEStepContext(
        plan=CapacityPlan(
            capacity_factor=None, cap_min=1, mode=OverflowMode.ENFORCED, policy=OverflowPolicy.DROP,
            domain=CapacityDomain.GLOBAL, dispatch_dtype=DispatchDtype.NATIVE,
        ),
        bias=bias, lkg_bias=None, sampled=False,
        bucket_ids=torch.zeros(0, dtype=torch.int64), is_decode=torch.zeros(0, dtype=torch.bool),
        recorder=NullRecorder(),
    )  # fmt: skip


def _evenly(runs: list[_Run]) -> Tensor:
    """Loads of all domains, each with the same weight: the smallest domain's tokens."""
    smallest = min(int(run.loads[0].sum()) for run in runs)
    return torch.stack([run.loads * (smallest / int(run.loads[0].sum())) for run in runs]).sum(0)


def _cv(loads: Tensor, decoder: Decoder) -> tuple[float, ...]:
    return tuple(debiased_cv(row, decoder.spec.moe.top_k) for row in loads.double().numpy())
