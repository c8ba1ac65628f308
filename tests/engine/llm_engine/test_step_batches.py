import pickle

import numpy as np

from engine.llm_engine.step_batches import pack, position_seed, split_by_rank
from engine.scheduling.scheduler import ScheduledSequence
from engine.scheduling.sequence import Sampling, Sequence


def make_share(name: str, rank: int, *, computed: int, num_tokens: int) -> ScheduledSequence:
    sequence = Sequence(
        request_id=name, token_ids=list(range(10)), num_prompt_tokens=8, max_tokens=9, bucket=3,
        num_computed_tokens=computed, block_table=[4, 2, 9], rank=rank,
        sampling=Sampling(temperature=0.5, top_p=0.9, seed=11),
    )  # fmt: skip
    return ScheduledSequence(
        sequence, num_tokens, is_decode=computed == 9, wants_token=computed + num_tokens == 10
    )


def test_shares_are_split_by_the_rank_that_owns_them():
    shares = [make_share(str(i), i % 2, computed=9, num_tokens=1) for i in range(3)]
    by_rank = split_by_rank(shares, 3)
    assert [[s.sequence.request_id for s in own] for own in by_rank] == [["0", "2"], ["1"], []]


def test_a_batch_lays_sequences_end_to_end():
    batch = pack(
        [
            make_share("a", 0, computed=2, num_tokens=4),
            make_share("b", 0, computed=9, num_tokens=1),
        ]
    )
    assert batch.token_ids.tolist() == [2, 3, 4, 5, 9]
    assert batch.num_tokens.tolist() == [4, 1]
    assert batch.context_lengths.tolist() == [6, 10]
    assert batch.blocks.tolist() == [4, 2, 9, 4, 2, 9]
    assert batch.num_blocks.tolist() == [3, 3]
    assert batch.is_decode.tolist() == [False, True]
    assert batch.wants_token.tolist() == [False, True]
    assert batch.buckets.tolist() == [3, 3]


def test_an_idle_rank_gets_empty_arrays_of_the_same_types():
    idle, busy = pack([]), pack([make_share("a", 0, computed=2, num_tokens=4)])
    for name in idle.__slots__:
        assert getattr(idle, name).shape == (0,)
        assert getattr(idle, name).dtype == getattr(busy, name).dtype


def test_a_batch_crosses_a_process_unchanged_and_can_be_written():
    for shares in ([], [make_share("a", 0, computed=2, num_tokens=4)]):
        batch = pack(shares)
        read = pickle.loads(pickle.dumps(batch))
        for name in batch.__slots__:
            ours, theirs = getattr(batch, name), getattr(read, name)
            assert ours.dtype == theirs.dtype
            assert ours.tolist() == theirs.tolist()
            assert theirs.flags.writeable


def test_seeds_differ_by_position_and_by_sequence_and_fit_int64():
    seeds = {position_seed(seed, position) for seed in range(50) for position in range(50)}
    assert len(seeds) == 2500
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert np.int64(position_seed(2**70, 5)) >= 0
