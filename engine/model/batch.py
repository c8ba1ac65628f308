"""One step's work for one rank, as the model sees it. Passed down, never global."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, slots=True)
class Batch:
    """A flat (unpadded) batch: S sequences, T tokens in all. T and S may be 0 (an idle rank).

    Attributes:
        token_ids: int64 [T].
        positions: int64 [T], position of each token in its own sequence.
        query_starts: int64 [S + 1], prefix sum of each sequence's tokens in this step.
        context_lengths: int64 [S], tokens of the sequence after this step (cached and new).
        block_tables: int64 [S, max_blocks], KV block ids, padded with 0.
        slot_mapping: int64 [T], cache slot (block · block_tokens + offset) of each token.
        logits_index: int64 [S'], rows of T whose next-token logits are wanted.
        bucket_ids: int64 [T], request hash modulo `contract.frame.NUM_BUCKETS`.
        is_decode: bool [T], True where the token is a decode token (phase 1).
    """

    token_ids: Tensor
    positions: Tensor
    query_starts: Tensor
    context_lengths: Tensor
    block_tables: Tensor
    slot_mapping: Tensor
    logits_index: Tensor
    bucket_ids: Tensor
    is_decode: Tensor
