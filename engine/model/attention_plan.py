"""How one step's tokens are attended: decided once, used by every layer.

Sequences with one token are decoded together, padded to the longest of their group; a sequence with
more is attended by itself. Grouping trades padding against calls.
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from engine.model.batch import Batch
from engine.model.mask import Visibility

_WORTH_A_GROUP_TOKENS = 4096
"""Padding that a further group must save, tokens: about what the extra calls cost on a CPU core."""


@dataclass(frozen=True, slots=True)
class DecodeGroup:
    """Sequences with one token in this step.

    Attributes:
        rows: int64 [S], their rows among the step's tokens; None where that is all, in order.
        block_tables: int64 [S, n].
        positions: int64 [S, 1], of the token itself.
        key_positions: int64 [1, C], C = n · block_tokens.
    """

    rows: Tensor | None
    block_tables: Tensor
    positions: Tensor
    key_positions: Tensor
    _masks: dict[tuple[Visibility, int, torch.dtype], Tensor] = field(default_factory=dict)

    def mask(self, visibility: Visibility, repeats: int, dtype: torch.dtype) -> Tensor:
        """[repeats · S, 1, C], to be added to scores: 0 where seen, -inf elsewhere; built once."""
        key = (visibility, repeats, dtype)
        if key not in self._masks:
            hidden = ~visibility.mask(self.positions, self.key_positions)
            added = torch.zeros(hidden.shape, dtype=dtype, device=hidden.device)
            added.masked_fill_(hidden, float("-inf"))
            added = added.unsqueeze(1)
            self._masks[key] = added if repeats == 1 else added.repeat(repeats, 1, 1)
        return self._masks[key]


@dataclass(frozen=True, slots=True)
class PrefillSequence:
    """A sequence with more than one token in this step.

    Attributes:
        start, stop: its rows.
        cached: tokens of it that were in the cache before.
        blocks: int64 [n].
    """

    start: int
    stop: int
    cached: int
    blocks: Tensor


@dataclass(frozen=True, slots=True)
class AttentionPlan:
    """The step's sequences by how they are attended."""

    decode: tuple[DecodeGroup, ...]
    prefill: tuple[PrefillSequence, ...]


def plan_attention(batch: Batch, block_tokens: int) -> AttentionPlan:
    """Split a batch; a sequence without tokens in this step is left out."""
    starts: list[int] = batch.query_starts.tolist()
    contexts: list[int] = batch.context_lengths.tolist()
    decode: list[int] = []
    prefill = []
    for sequence, context in enumerate(contexts):
        start, stop = starts[sequence], starts[sequence + 1]
        if stop - start == 1:
            decode.append(sequence)
        elif stop > start:
            blocks = -(-context // block_tokens)
            table = batch.block_tables[sequence, :blocks]
            prefill.append(PrefillSequence(start, stop, context - (stop - start), table))
    groups = group_by_length({sequence: contexts[sequence] for sequence in decode})
    whole = not prefill and len(groups) == 1
    return AttentionPlan(
        tuple(
            _decode_group(batch, starts, group, contexts, block_tokens, whole) for group in groups
        ),
        tuple(prefill),
    )


def group_by_length(lengths: dict[int, int]) -> list[list[int]]:
    """Split sequences (id → length) so that padding to each group's longest stays small.

    Longest first; a group ends where a new one saves `_WORTH_A_GROUP_TOKENS` of padding. One group
    keeps the ids' own order.
    """
    if not lengths:
        return []
    ordered = sorted(lengths, key=lambda sequence: -lengths[sequence])
    groups, first = [], 0
    for place in range(1, len(ordered)):
        saved = (lengths[ordered[first]] - lengths[ordered[place]]) * (len(ordered) - place)
        if saved >= _WORTH_A_GROUP_TOKENS:
            groups.append(ordered[first:place])
            first = place
    groups.append(ordered[first:])
    return groups if len(groups) > 1 else [list(lengths)]


def _decode_group(
    batch: Batch, starts: list[int], group: list[int], contexts: list[int], block_tokens: int,
    whole: bool,
) -> DecodeGroup:  # fmt: skip
    device = batch.token_ids.device
    blocks = -(-max(contexts[sequence] for sequence in group) // block_tokens)
    key_positions = torch.arange(blocks * block_tokens, device=device).unsqueeze(0)
    if whole and len(group) == len(contexts):
        tables, positions = batch.block_tables[:, :blocks], batch.positions.unsqueeze(1)
        return DecodeGroup(None, tables.contiguous(), positions, key_positions)
    index = torch.tensor(group, device=device)
    rows = torch.tensor([starts[sequence] for sequence in group], device=device)
    return DecodeGroup(
        rows,
        batch.block_tables.index_select(0, index)[:, :blocks].contiguous(),
        batch.positions.index_select(0, rows).unsqueeze(1),
        key_positions,
    )
