"""Logits of every position of one text, over a cache of its own."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from engine.model.batch import Batch
from engine.model.decoder import Decoder
from engine.model.kv_cache import KVCache
from engine.moe.context import MoEStepContext

_BLOCK_TOKENS = 16


def teacher_forced_logits(
    decoder: Decoder, context: MoEStepContext, token_ids: Sequence[int]
) -> Tensor:
    """Logits FP32 [T, V] of `token_ids` [T] as one sequence in one step.

    It neither needs nor disturbs the blocks of requests. Collective: a rank without the text calls
    it with no tokens. The context's token tensors are filled in here.
    """
    batch = _one_sequence(token_ids, decoder.device)
    cache = KVCache(
        decoder.spec, blocks=max(batch.block_tables.shape[1], 1), block_tokens=_BLOCK_TOKENS,
        device=decoder.device, dtype=decoder.dtype,
    )  # fmt: skip
    context = replace(context, bucket_ids=batch.bucket_ids, is_decode=batch.is_decode)
    return decoder.forward(batch, cache, context)


def _one_sequence(token_ids: Sequence[int], device: torch.device) -> Batch:
    """A prompt in blocks 0, 1, ..., every row's logits wanted; no tokens make no sequence."""
    count = len(token_ids)
    sequences = min(count, 1)
    places = torch.arange(count, device=device)
    blocks = torch.arange(-(-count // _BLOCK_TOKENS), device=device)
    return Batch(
        token_ids=torch.tensor(list(token_ids), dtype=torch.int64, device=device),
        positions=places,
        query_starts=torch.tensor([0, count][: sequences + 1], device=device),
        context_lengths=torch.full((sequences,), count, device=device),
        block_tables=blocks.expand(sequences, -1),
        slot_mapping=places,
        logits_index=places,
        bucket_ids=torch.zeros_like(places),
        is_decode=torch.zeros(count, dtype=torch.bool, device=device),
    )
