"""One rank's sequences of a step as compact arrays, and the batch that they make."""

from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from engine.model.batch import Batch

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]
Bools = npt.NDArray[np.bool_]


class PackedSequences(Protocol):
    """S sequences with T tokens in this step, end to end; both may be 0 (an idle rank).

    Attributes:
        token_ids: int64 [T].
        num_tokens, context_lengths, buckets: int64 [S]; tokens in this step, tokens after it,
            request-hash bucket.
        is_decode, wants_token: bool [S].
        blocks, num_blocks: int64 [sum], [S]; block tables end to end, and their lengths.
        temperature, top_p: float32 [S]; seed: int64 [S], of this position alone.
    """

    @property
    def token_ids(self) -> Ints: ...  # noqa: D102
    @property
    def num_tokens(self) -> Ints: ...  # noqa: D102
    @property
    def context_lengths(self) -> Ints: ...  # noqa: D102
    @property
    def buckets(self) -> Ints: ...  # noqa: D102
    @property
    def is_decode(self) -> Bools: ...  # noqa: D102
    @property
    def wants_token(self) -> Bools: ...  # noqa: D102
    @property
    def blocks(self) -> Ints: ...  # noqa: D102
    @property
    def num_blocks(self) -> Ints: ...  # noqa: D102
    @property
    def temperature(self) -> Floats: ...  # noqa: D102
    @property
    def top_p(self) -> Floats: ...  # noqa: D102
    @property
    def seed(self) -> Ints: ...  # noqa: D102


def build_batch(packed: PackedSequences, block_tokens: int, device: torch.device) -> Batch:
    """Positions, cache slots and padded block tables of a step."""
    counts = packed.num_tokens
    tables = _padded_tables(packed.blocks, packed.num_blocks)
    if (counts == 1).all():  # a decode step: nothing to unfold
        ends = np.arange(1, len(counts) + 1)
        owner, positions = ends - 1, packed.context_lengths - 1
    else:
        ends = np.cumsum(counts)
        owner = np.repeat(np.arange(len(counts)), counts)
        first = packed.context_lengths - counts
        positions = np.arange(len(packed.token_ids)) + (first - (ends - counts))[owner]
    slots = tables[owner, positions // block_tokens] * block_tokens + positions % block_tokens

    def put(values: npt.NDArray[np.generic]) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(values)).to(device)

    return Batch(
        token_ids=put(packed.token_ids),
        positions=put(positions),
        query_starts=put(np.concatenate(([0], ends))),
        context_lengths=put(packed.context_lengths),
        block_tables=put(tables),
        slot_mapping=put(slots),
        logits_index=put(ends[packed.wants_token] - 1),
        bucket_ids=put(packed.buckets[owner]),
        is_decode=put(packed.is_decode[owner]),
    )


def _padded_tables(blocks: Ints, num_blocks: Ints) -> Ints:
    """Block tables end to end → int64 [S, most blocks], padded with 0."""
    widest = int(num_blocks.max()) if len(num_blocks) else 0
    tables = np.zeros((len(num_blocks), widest), np.int64)
    tables[np.arange(widest)[None] < num_blocks[:, None]] = blocks
    return tables
