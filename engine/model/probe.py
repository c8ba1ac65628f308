"""How well the model, with its router as it is now, predicts a fixed text.

The text was held out of training. It runs teacher-forced, as one sequence, over a cache of its own,
so that it neither needs nor disturbs the blocks of requests.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch.nn import functional

from engine.model.batch import Batch
from engine.model.decoder import Decoder
from engine.model.kv_cache import KVCache
from engine.moe.context import MoEStepContext

_BLOCK_TOKENS = 16


def probe_nll(
    decoder: Decoder, context: MoEStepContext, token_ids: Sequence[int]
) -> tuple[float, int]:
    """Negative log-likelihood of `token_ids`: its sum in nats, and the tokens predicted.

    Every rank must call it in the same step: the rank that has the text with it, the others with an
    empty sequence, since the MoE layers' collectives need them all.
    """
    batch = _one_sequence(token_ids, decoder.device)
    blocks = batch.block_tables.shape[1] if token_ids else 0
    cache = KVCache(
        decoder.spec, blocks=max(blocks, 1), block_tokens=_BLOCK_TOKENS,
        device=decoder.device, dtype=decoder.dtype,
    )  # fmt: skip
    context = replace(context, bucket_ids=batch.bucket_ids, is_decode=batch.is_decode)
    logits = decoder.forward(batch, cache, context)
    if len(token_ids) < 2:
        return 0.0, 0
    total = functional.cross_entropy(logits[:-1], batch.token_ids[1:], reduction="sum")
    return float(total), len(token_ids) - 1


def _one_sequence(token_ids: Sequence[int], device: torch.device) -> Batch:
    """A prompt of its own blocks, every row's logits wanted; no tokens make no sequence."""
    count = len(token_ids)
    places = torch.arange(count, device=device)
    sequences = 1 if count else 0
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
