"""Small checkpoints of every family, and a rank that serves them without an engine around it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from contract.runtime_config import CapacityDomain, DispatchDtype, OverflowMode, OverflowPolicy
from engine.model.checkpoint.load import load_model, read_facts
from engine.model.decoder import Decoder
from engine.model.kv_cache import KVCache
from engine.model.packed import build_batch
from engine.model.runner import ModelRunner
from engine.moe.context import CapacityPlan, MoEStepContext
from engine.parallel.groups import LocalGroup
from engine.scheduling.scheduler import ScheduledSequence, ScheduleLimits, Scheduler
from engine.scheduling.sequence import Sequence as LiveSequence
from engine.telemetry.null_recorder import NullRecorder

CPU = torch.device("cpu")
BLOCK_TOKENS = 4


@dataclass(frozen=True, slots=True)
class Packed:
    """A rank's share of a step as the runner takes it (`engine.model.packed.PackedSequences`)."""

    token_ids: npt.NDArray[np.int64]
    num_tokens: npt.NDArray[np.int64]
    context_lengths: npt.NDArray[np.int64]
    buckets: npt.NDArray[np.int64]
    is_decode: npt.NDArray[np.bool_]
    wants_token: npt.NDArray[np.bool_]
    blocks: npt.NDArray[np.int64]
    num_blocks: npt.NDArray[np.int64]
    temperature: npt.NDArray[np.float32]
    top_p: npt.NDArray[np.float32]
    seed: npt.NDArray[np.int64]


def pack(shares: Sequence[ScheduledSequence]) -> Packed:
    """Greedy sampling for every sequence."""
    starts = [share.sequence.num_computed_tokens for share in shares]
    tokens: list[int] = []
    blocks: list[int] = []
    for start, share in zip(starts, shares, strict=True):
        tokens += share.sequence.token_ids[start : start + share.num_tokens]
        blocks += share.sequence.block_table
    counts = np.array([share.num_tokens for share in shares], np.int64)
    return Packed(
        token_ids=np.array(tokens, np.int64),
        num_tokens=counts,
        context_lengths=np.array(starts, np.int64) + counts,
        buckets=np.zeros(len(shares), np.int64),
        is_decode=np.array([share.is_decode for share in shares], np.bool_),
        wants_token=np.array([share.wants_token for share in shares], np.bool_),
        blocks=np.array(blocks, np.int64),
        num_blocks=np.array([len(share.sequence.block_table) for share in shares], np.int64),
        temperature=np.zeros(len(shares), np.float32),
        top_p=np.ones(len(shares), np.float32),
        seed=np.zeros(len(shares), np.int64),
    )


def one_prompt(tokens: Sequence[int]) -> Packed:
    """A whole prompt in one step, in the first blocks."""
    sequence = LiveSequence("a", list(tokens), len(tokens), 1)
    sequence.block_table = list(range(-(-len(tokens) // BLOCK_TOKENS)))
    return pack([ScheduledSequence(sequence, len(tokens), is_decode=False, wants_token=True)])


def dropless(bias: Tensor | None) -> MoEStepContext:
    """A step without capacity; token tensors are filled in by who runs it."""
    return MoEStepContext(
        plan=CapacityPlan(
            capacity_factor=None, cap_min=1, mode=OverflowMode.ENFORCED, policy=OverflowPolicy.DROP,
            domain=CapacityDomain.GLOBAL, dispatch_dtype=DispatchDtype.NATIVE,
        ),
        bias=bias, lkg_bias=None, sampled=False,
        bucket_ids=torch.zeros(0, dtype=torch.int64), is_decode=torch.zeros(0, dtype=torch.bool),
        recorder=NullRecorder(),
    )  # fmt: skip


@dataclass
class Served:
    """A checkpoint loaded on one rank."""

    decoder: Decoder
    context: MoEStepContext

    @classmethod
    def load(cls, folder: Path, dtype: torch.dtype = torch.float32) -> "Served":
        bias = read_facts(folder).bias
        decoder = load_model(folder, group=LocalGroup(), device=CPU, dtype=dtype)
        return cls(decoder, dropless(None if bias is None else torch.from_numpy(bias)))

    def cache(self, blocks: int = 96) -> KVCache:
        return KVCache(
            self.decoder.spec, blocks=blocks, block_tokens=BLOCK_TOKENS,
            device=CPU, dtype=self.decoder.dtype,
        )  # fmt: skip

    def logits(self, tokens: Sequence[int]) -> Tensor:
        """Logits of every position of one prompt, computed in one step."""
        batch = build_batch(one_prompt(tokens), BLOCK_TOKENS, CPU)
        batch = replace(batch, logits_index=torch.arange(len(tokens)))
        context = replace(self.context, bucket_ids=batch.bucket_ids, is_decode=batch.is_decode)
        return self.decoder.forward(batch, self.cache(), context)

    def generate(
        self, prompts: Sequence[Sequence[int]], *, max_tokens: int, chunk_size: int
    ) -> list[list[int]]:
        """Greedy output of every prompt through the real scheduler, with chunked prefill."""
        scheduler = Scheduler(num_ranks=1, kv_blocks=96, block_tokens=BLOCK_TOKENS)
        runner = ModelRunner(self.decoder, self.cache(96))
        live = [LiveSequence(str(i), list(p), len(p), max_tokens) for i, p in enumerate(prompts)]
        for sequence in live:
            scheduler.add(sequence)
        limits = ScheduleLimits(chunk_size=chunk_size, max_concurrency=len(prompts))
        while scheduler.has_work:
            step = scheduler.schedule(limits)
            drawn = runner.step(pack(step), self.context)
            wanting = [share.sequence.request_id for share in step if share.wants_token]
            scheduler.complete(step, dict(zip(wanting, drawn, strict=True)))
        return [sequence.token_ids[sequence.num_prompt_tokens :] for sequence in live]


def save_small(model_class: Callable[[Any], Any], config: Any, folder: Path, seed: int) -> Any:
    """A random model of a `transformers` class, saved to `folder`; norms and biases vary too."""
    torch.manual_seed(seed)
    model = model_class(config).eval()
    with torch.no_grad():
        biases = [b for name, b in model.named_buffers() if name.endswith("correction_bias")]
        for tensor in (*model.parameters(), *biases):
            tensor.add_(torch.randn_like(tensor) * 0.05)
    model.save_pretrained(folder)
    return model
