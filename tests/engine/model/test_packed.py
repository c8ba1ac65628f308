import numpy as np

from engine.model.packed import build_batch
from tests.support.models import CPU, Packed, pack


def packed(**arrays: list[int]) -> Packed:
    sequences = len(arrays["num_tokens"])
    return Packed(
        token_ids=np.array(arrays["token_ids"], np.int64),
        num_tokens=np.array(arrays["num_tokens"], np.int64),
        context_lengths=np.array(arrays["context_lengths"], np.int64),
        buckets=np.arange(sequences) + 5,
        is_decode=np.array(arrays["num_tokens"]) == 1,
        wants_token=np.array(arrays["wants_token"], np.bool_),
        blocks=np.array(arrays["blocks"], np.int64),
        num_blocks=np.array(arrays["num_blocks"], np.int64),
        temperature=np.zeros(sequences, np.float32),
        top_p=np.ones(sequences, np.float32),
        seed=np.zeros(sequences, np.int64),
    )


def test_positions_slots_and_tables_of_a_mixed_step() -> None:
    batch = build_batch(
        packed(
            token_ids=[10, 11, 12, 20, 30, 31],
            num_tokens=[3, 1, 2],
            context_lengths=[3, 6, 7],
            wants_token=[0, 1, 1],
            blocks=[7, 2, 9, 4, 5],
            num_blocks=[1, 2, 2],
        ),
        4,
        CPU,
    )
    assert batch.positions.tolist() == [0, 1, 2, 5, 5, 6]
    assert batch.query_starts.tolist() == [0, 3, 4, 6]
    assert batch.block_tables.tolist() == [[7, 0], [2, 9], [4, 5]]
    assert batch.slot_mapping.tolist() == [28, 29, 30, 37, 21, 22]
    assert batch.logits_index.tolist() == [3, 5]
    assert batch.bucket_ids.tolist() == [5, 5, 5, 6, 7, 7]
    assert batch.is_decode.tolist() == [False, False, False, True, False, False]


def test_an_idle_rank_gets_an_empty_batch() -> None:
    batch = build_batch(pack([]), 4, CPU)
    assert batch.token_ids.shape == (0,)
    assert batch.query_starts.tolist() == [0]
    assert batch.block_tables.shape[0] == 0
    assert batch.logits_index.shape == (0,)
