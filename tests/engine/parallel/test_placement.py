"""Placements cover every expert, split by rank, and survive the admin body."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contract.admin import PlacementBody
from engine.errors import BadRequestError
from engine.parallel.placement import Placement, from_body, linear, round_robin, to_body


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 6), st.integers(1, 8), st.integers(1, 3), st.booleans())
def test_every_expert_lies_once_and_ranks_hold_equal_shares(ranks, per_rank, layers, spread):
    make = round_robin if spread else linear
    placement = make(layers, ranks * per_rank, ranks)
    held = np.concatenate([placement.experts_of(0, rank) for rank in range(ranks)])
    assert sorted(held) == list(range(ranks * per_rank))
    assert not placement.has_replicas
    assert placement.slots_per_rank == per_rank
    body = to_body(placement, "p1")
    again = from_body(body, layers=layers, num_experts=ranks * per_rank, ranks=ranks)
    assert again.content_hash() == placement.content_hash()


def test_round_robin_puts_neighbours_apart():
    assert round_robin(1, 6, 2).physical_to_logical.tolist() == [[0, 2, 4, 1, 3, 5]]


def test_replicas_share_the_load_of_their_expert():
    placement = Placement(np.array([[0, 1, 0, 2]]), 2, 3)
    assert placement.has_replicas
    assert placement.rank_load(np.array([[6.0, 1.0, 2.0]])).tolist() == [[4.0, 5.0]]


@pytest.mark.parametrize(
    ("rows", "ranks", "text"),
    [
        ([[0, 1, 2]], 2, "3 slots"),
        ([[0, 1, 2, 4]], 2, "names expert 4"),
        ([[0, 1, 2, 2]], 2, "no slot for expert 3"),
        ([[0, 1, 2, 3]], 4, "this group has 2"),
        ([[0, 1, 2, 3]] * 2, 2, "2 layers"),
    ],
)
def test_a_wrong_placement_is_refused_by_name(rows, ranks, text):
    body = PlacementBody(
        placement_id="p", ranks=ranks, physical_to_logical=tuple(tuple(row) for row in rows)
    )
    with pytest.raises(BadRequestError, match=text):
        from_body(body, layers=1, num_experts=4, ranks=2)


def test_rows_of_different_length_are_refused():
    body = PlacementBody(placement_id="p", ranks=2, physical_to_logical=((0, 1), (0, 1, 0, 1)))
    with pytest.raises(BadRequestError, match="differ in length"):
        from_body(body, layers=2, num_experts=2, ranks=2)


def test_experts_that_do_not_split_over_the_ranks_are_refused():
    with pytest.raises(BadRequestError, match="multiple of 3"):
        linear(1, 128, 3)
