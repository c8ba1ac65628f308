import torch
from hypothesis import given
from hypothesis import strategies as st

from engine.model.attention_plan import group_by_length, plan_attention
from engine.model.batch import Batch

LENGTHS = st.lists(st.integers(1, 5000), max_size=40)


@given(LENGTHS)
def test_every_sequence_lies_in_exactly_one_group(lengths: list[int]) -> None:
    groups = group_by_length(dict(enumerate(lengths)))
    assert sorted(sequence for group in groups for sequence in group) == list(range(len(lengths)))


@given(LENGTHS)
def test_grouping_never_pads_more_than_one_group_would(lengths: list[int]) -> None:
    groups = group_by_length(dict(enumerate(lengths)))
    padded = sum(max(lengths[sequence] for sequence in group) * len(group) for group in groups)
    assert padded <= max(lengths, default=0) * len(lengths)


def test_one_long_sequence_does_not_pad_many_short_ones() -> None:
    groups = group_by_length({0: 100, 1: 2000, **dict.fromkeys(range(2, 20), 100)})
    assert groups[0] == [1]
    assert len(groups) == 2


def test_a_sequence_without_tokens_in_this_step_is_left_out() -> None:
    batch = Batch(
        token_ids=torch.zeros(4, dtype=torch.int64),
        positions=torch.tensor([0, 1, 2, 8]),
        query_starts=torch.tensor([0, 3, 3, 4]),
        context_lengths=torch.tensor([3, 5, 9]),
        block_tables=torch.tensor([[0, 0, 0], [1, 2, 0], [3, 4, 5]]),
        slot_mapping=torch.zeros(4, dtype=torch.int64),
        logits_index=torch.zeros(0, dtype=torch.int64),
        bucket_ids=torch.zeros(4, dtype=torch.int64),
        is_decode=torch.zeros(4, dtype=torch.bool),
    )
    plan = plan_attention(batch, 4)
    assert [(each.start, each.stop, each.cached) for each in plan.prefill] == [(0, 3, 0)]
    (group,) = plan.decode
    assert group.rows is not None
    assert group.rows.tolist() == [3]
    assert group.block_tables.tolist() == [[3, 4, 5]]
    assert group.key_positions.shape == (1, 12)
