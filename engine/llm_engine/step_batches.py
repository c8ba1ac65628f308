"""From what the scheduler chose to the compact arrays that each rank gets."""

from collections.abc import Iterable, Sequence
from itertools import chain

import numpy as np

from engine.scheduling.scheduler import ScheduledSequence
from engine.worker.messages import StepBatch

_SEED_MASK = (1 << 63) - 1
_SEED_STRIDE = 0x9E3779B97F4A7C15
_POSITION_STRIDE = 0xD1B54A32D192ED03


def split_by_rank(
    shares: Iterable[ScheduledSequence], num_ranks: int
) -> tuple[list[ScheduledSequence], ...]:
    """The shares of each rank, in the scheduler's order."""
    by_rank: tuple[list[ScheduledSequence], ...] = tuple([] for _ in range(num_ranks))
    for share in shares:
        if share.sequence.rank is None:
            raise ValueError(f"request {share.sequence.request_id!r} was scheduled without a rank")
        by_rank[share.sequence.rank].append(share)
    return by_rank


def pack(shares: Sequence[ScheduledSequence]) -> StepBatch:
    """One rank's batch; empty arrays for an idle rank."""
    sequences = [share.sequence for share in shares]
    counts = [share.num_tokens for share in shares]
    starts = [sequence.num_computed_tokens for sequence in sequences]
    ends = [start + count for start, count in zip(starts, counts, strict=True)]
    tokens = chain.from_iterable(
        sequence.token_ids[start:end]
        for sequence, start, end in zip(sequences, starts, ends, strict=True)
    )
    return StepBatch(
        token_ids=np.fromiter(tokens, np.int64),
        num_tokens=np.array(counts, np.int64),
        context_lengths=np.array(ends, np.int64),
        buckets=np.array([sequence.bucket for sequence in sequences], np.int64),
        is_decode=np.array([share.is_decode for share in shares], np.bool_),
        wants_token=np.array([share.wants_token for share in shares], np.bool_),
        blocks=np.fromiter(
            chain.from_iterable(sequence.block_table for sequence in sequences), np.int64
        ),
        num_blocks=np.array([len(sequence.block_table) for sequence in sequences], np.int64),
        temperature=np.array([each.sampling.temperature for each in sequences], np.float32),
        top_p=np.array([each.sampling.top_p for each in sequences], np.float32),
        seed=np.array(
            [position_seed(each.sampling.seed, len(each.token_ids)) for each in sequences], np.int64
        ),
    )


def position_seed(seed: int, position: int) -> int:
    """A seed for one position of a sequence: the same after preemption, never the same twice."""
    return (seed * _SEED_STRIDE + position * _POSITION_STRIDE) & _SEED_MASK
