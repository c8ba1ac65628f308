"""Continuous batching over the ranks of one EP group: decode first, then chunked prefill.

Every step has one token budget over the whole group (`chunk_size`). Running sequences that decode
take one token each; what is left goes to prompts in order of arrival. A sequence lives on one rank,
chosen when it starts to run: the one with the fewest running sequences that has the blocks.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from engine.scheduling.kv_blocks import KVBlocks
from engine.scheduling.sequence import FinishReason, Sequence, SequenceState


class ScheduledSequence(NamedTuple):
    """A sequence's share of one step.

    Attributes:
        sequence: whose tokens.
        num_tokens: how many of its uncomputed tokens.
        is_decode: whether the one token is an output token fed back.
        wants_token: whether the step reaches the sequence's end, so that a token is drawn.
    """

    sequence: Sequence
    num_tokens: int
    is_decode: bool
    wants_token: bool


@dataclass(frozen=True, slots=True)
class ScheduleLimits:
    """The live knobs that bound a step: tokens over the group, running sequences of the group."""

    chunk_size: int
    max_concurrency: int


class Scheduler:
    """Waiting and running sequences of one EP group, and the KV blocks of every rank.

    Args:
        num_ranks: ranks of the group.
        kv_blocks: blocks of one rank.
        block_tokens: tokens of one block.
    """

    def __init__(self, *, num_ranks: int, kv_blocks: int, block_tokens: int) -> None:
        self.blocks = tuple(KVBlocks(kv_blocks, block_tokens) for _ in range(num_ranks))
        self.waiting: deque[Sequence] = deque()
        self.running: list[Sequence] = []
        self._by_id: dict[str, Sequence] = {}
        self._first_decode = 0

    @property
    def has_work(self) -> bool:
        """Whether any sequence is not finished."""
        return bool(self._by_id)

    @property
    def blocks_used_ratio(self) -> float:
        """Used KV blocks over all ranks, 0 to 1."""
        total = sum(blocks.num_blocks for blocks in self.blocks)
        return sum(blocks.num_used for blocks in self.blocks) / total

    def add(self, sequence: Sequence) -> None:
        """Queue a sequence; its id must be new among the live ones."""
        if sequence.request_id in self._by_id:
            raise ValueError(f"request {sequence.request_id!r} is live already")
        self._by_id[sequence.request_id] = sequence
        self.waiting.append(sequence)

    def abort(self, request_id: str) -> Sequence | None:
        """End a sequence now and free its blocks; None when it is not live."""
        sequence = self._by_id.get(request_id)
        if sequence is None:
            return None
        sequence.finish_reason = FinishReason.ABORT
        if sequence.state is SequenceState.WAITING:
            self.waiting.remove(sequence)
        self._finish(sequence)
        return sequence

    def schedule(self, limits: ScheduleLimits) -> tuple[ScheduledSequence, ...]:
        """Fill one step. Sequences move from waiting to running, or back when blocks run out.

        The sum of tokens never exceeds `chunk_size`; lowering `max_concurrency` only stops new
        sequences from starting.
        """
        budget = limits.chunk_size
        decoding: list[Sequence] = []
        prefilling: list[Sequence] = []
        for sequence in self.running:
            (decoding if sequence.is_decoding else prefilling).append(sequence)
        step = self._decodes(decoding, budget)
        budget -= len(step)
        for sequence in prefilling:
            if budget and sequence.state is SequenceState.RUNNING:
                step.append(_share(sequence, budget))
                budget -= step[-1].num_tokens
        while budget and self.waiting and len(self.running) < limits.max_concurrency:
            if not self._start(self.waiting[0]):
                break
            step.append(_share(self.waiting.popleft(), budget))
            budget -= step[-1].num_tokens
        return tuple(step)

    def complete(
        self, step: Iterable[ScheduledSequence], token_ids: dict[str, int]
    ) -> tuple[Sequence, ...]:
        """Account for a step that ran.

        Args:
            step: what `schedule` gave.
            token_ids: the drawn token of each sequence that wanted one, by request id.

        Returns:
            The sequences that took a token in this step, finished ones included.
        """
        advanced = []
        for share in step:
            sequence = share.sequence
            if sequence.state is not SequenceState.RUNNING:
                continue
            sequence.num_computed_tokens += share.num_tokens
            if share.wants_token:
                sequence.append(token_ids[sequence.request_id])
                advanced.append(sequence)
                if sequence.finish_reason is not None:
                    self._finish(sequence)
        return tuple(advanced)

    def _decodes(self, decoding: list[Sequence], budget: int) -> list[ScheduledSequence]:
        """One token for each sequence that decodes; in turns where they exceed the budget."""
        if len(decoding) > budget:
            first = self._first_decode % len(decoding)
            decoding = (decoding + decoding)[first : first + budget]
            self._first_decode += budget
        for sequence in decoding:
            if sequence.state is SequenceState.RUNNING:
                self._make_room(sequence)
        return [
            ScheduledSequence(each, 1, is_decode=True, wants_token=True)
            for each in decoding
            if each.state is SequenceState.RUNNING
        ]

    def _make_room(self, sequence: Sequence) -> None:
        """Find blocks for one token more: the rank's newest sequences give theirs if need be."""
        blocks = self._blocks_of(sequence)
        num_tokens = sequence.num_computed_tokens + 1
        if num_tokens <= len(sequence.block_table) * blocks.block_tokens:
            return
        while not blocks.can_allocate(sequence, num_tokens):
            victim = next(other for other in reversed(self.running) if other.rank == sequence.rank)
            self._preempt(victim)
            if victim is sequence:
                return
        blocks.allocate(sequence, num_tokens)

    def _start(self, sequence: Sequence) -> bool:
        """Give the sequence a rank and blocks for all its tokens; False where none has them."""
        num_tokens = len(sequence.token_ids)
        fitting = [
            (sum(other.rank == rank for other in self.running), blocks.num_used, rank)
            for rank, blocks in enumerate(self.blocks)
            if blocks.can_allocate(sequence, num_tokens)
        ]
        if not fitting:
            return False
        sequence.rank = min(fitting)[2]
        self.blocks[sequence.rank].allocate(sequence, num_tokens)
        sequence.state = SequenceState.RUNNING
        self.running.append(sequence)
        return True

    def _preempt(self, sequence: Sequence) -> None:
        """Back to the head of the queue; its cache is computed again when it returns."""
        self._release(sequence)
        sequence.state = SequenceState.WAITING
        sequence.num_preemptions += 1
        self.waiting.appendleft(sequence)

    def _finish(self, sequence: Sequence) -> None:
        if sequence.state is SequenceState.RUNNING:
            self._release(sequence)
        sequence.state = SequenceState.FINISHED
        del self._by_id[sequence.request_id]

    def _release(self, sequence: Sequence) -> None:
        self._blocks_of(sequence).deallocate(sequence)
        self.running.remove(sequence)
        sequence.rank = None

    def _blocks_of(self, sequence: Sequence) -> KVBlocks:
        if sequence.rank is None:
            raise ValueError(f"request {sequence.request_id!r} has no rank")
        return self.blocks[sequence.rank]


def _share(sequence: Sequence, budget: int) -> ScheduledSequence:
    num_tokens = min(budget, sequence.num_uncomputed_tokens)
    return ScheduledSequence(
        sequence=sequence, num_tokens=num_tokens, is_decode=sequence.is_decoding,
        wants_token=num_tokens == sequence.num_uncomputed_tokens,
    )  # fmt: skip
