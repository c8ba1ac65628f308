"""Run one step of one rank: sequences in, drawn tokens out."""

from dataclasses import replace

from engine.model.decoder import Decoder
from engine.model.kv_cache import KVCache
from engine.model.packed import PackedSequences, build_batch
from engine.model.sampler import sample
from engine.moe.context import MoEStepContext


class ModelRunner:
    """The model of one rank with its cache.

    Args:
        decoder: the loaded model.
        cache: this rank's KV cache.
    """

    def __init__(self, decoder: Decoder, cache: KVCache) -> None:
        self.decoder = decoder
        self.cache = cache

    def step(self, packed: PackedSequences, context: MoEStepContext) -> list[int]:
        """Run one step; an idle rank calls it with empty arrays, so that collectives complete.

        Args:
            packed: this rank's share of the step.
            context: the step's plan and recorder; its token tensors are filled in here.

        Returns:
            The drawn token of each sequence that wanted one, in batch order.
        """
        batch = build_batch(packed, self.cache.block_tokens, self.decoder.device)
        context = replace(context, bucket_ids=batch.bucket_ids, is_decode=batch.is_decode)
        logits = self.decoder.forward(batch, self.cache, context)
        wants = packed.wants_token
        if not wants.any():
            return []
        drawn = sample(
            logits,
            temperature=packed.temperature[wants],
            top_p=packed.top_p[wants],
            seed=packed.seed[wants],
        )
        ids: list[int] = drawn.tolist()
        return ids
