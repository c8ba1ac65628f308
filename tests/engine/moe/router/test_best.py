import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.moe.router.best import best


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**31), tokens=st.integers(0, 40), experts=st.integers(1, 130),
    signed=st.booleans(),
)  # fmt: skip
def test_the_best_are_those_of_topk(seed: int, tokens: int, experts: int, signed: bool) -> None:
    scores = torch.randn(tokens, experts, generator=torch.Generator().manual_seed(seed))
    if not signed:
        scores = scores.softmax(-1)
    for count in {1, min(8, experts), experts}:
        chosen = best(scores, count)
        assert chosen.dtype is torch.int64
        assert torch.equal(scores.gather(1, chosen), scores.topk(count).values)
        assert all(len(set(row)) == count for row in chosen.tolist())


def test_of_equal_scores_the_lower_expert_comes_first() -> None:
    assert best(torch.tensor([[0.5, 0.25, 0.5, 0.5]]), 3).tolist() == [[0, 2, 3]]


def test_barred_experts_come_last() -> None:
    scores = torch.tensor([[float("-inf"), -2.0, 0.0, -0.5]])
    assert best(scores, 4).tolist() == [[2, 3, 1, 0]]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_other_types_are_chosen_alike(dtype: torch.dtype) -> None:
    scores = torch.tensor([[0.5, 0.25, 2.0, -1.0]], dtype=dtype)
    assert best(scores, 2).tolist() == [[2, 0]]


def test_scores_with_a_gradient_can_be_chosen_from() -> None:
    assert best(torch.tensor([[0.5, 2.0]]).requires_grad_(), 1).tolist() == [[1]]
