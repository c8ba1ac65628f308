import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from engine.model.sampler import draw, sample, uniforms


def drawn(logits: torch.Tensor, *, temperature: float, top_p: float, seeds: list[int]) -> list[int]:
    rows = len(seeds)
    tokens = sample(
        logits.expand(rows, -1),
        temperature=np.full(rows, temperature, np.float32),
        top_p=np.full(rows, top_p, np.float32),
        seed=np.array(seeds, np.int64),
    )
    return tokens.tolist()


def test_temperature_zero_is_greedy_whatever_the_seed() -> None:
    logits = torch.tensor([0.1, 3.0, 2.9])
    assert drawn(logits, temperature=0.0, top_p=1.0, seeds=[0, 1, 2]) == [1, 1, 1]


def test_a_draw_does_not_depend_on_what_else_is_in_the_batch() -> None:
    logits = torch.randn(50, generator=torch.Generator().manual_seed(0))
    together = drawn(logits, temperature=1.0, top_p=0.9, seeds=list(range(20)))
    alone = [drawn(logits, temperature=1.0, top_p=0.9, seeds=[seed])[0] for seed in range(20)]
    assert together == alone
    assert len(set(together)) > 5


def test_frequencies_follow_the_probabilities() -> None:
    probabilities = torch.tensor([0.5, 0.3, 0.15, 0.05])
    tokens = drawn(probabilities.log(), temperature=1.0, top_p=1.0, seeds=list(range(4000)))
    shares = np.bincount(tokens, minlength=4) / 4000
    np.testing.assert_allclose(shares, probabilities.numpy(), atol=0.03)


def test_the_nucleus_is_the_smallest_set_that_reaches_top_p() -> None:
    logits = torch.tensor([0.5, 0.3, 0.15, 0.05]).log()
    seeds = list(range(500))
    assert set(drawn(logits, temperature=1.0, top_p=0.79, seeds=seeds)) == {0, 1}
    assert set(drawn(logits, temperature=1.0, top_p=0.81, seeds=seeds)) == {0, 1, 2}


def test_a_tiny_top_p_leaves_the_most_likely_token() -> None:
    logits = torch.randn(30, generator=torch.Generator().manual_seed(1))
    best = int(logits.argmax())
    assert set(drawn(logits, temperature=2.0, top_p=1e-6, seeds=list(range(50)))) == {best}


def test_greedy_and_warm_rows_share_a_batch() -> None:
    logits = torch.tensor([[5.0, 0.0], [0.0, 0.0], [0.0, 5.0]])
    tokens = sample(
        logits,
        temperature=np.array([0.0, 1.0, 0.0], np.float32),
        top_p=np.ones(3, np.float32),
        seed=np.arange(3),
    )
    assert tokens[0] == 0
    assert tokens[2] == 1


@given(st.floats(0, 1, exclude_max=True), st.floats(0.01, 1.0), st.integers(0, 1000))
def test_a_draw_is_always_a_token_of_the_nucleus(uniform: float, top_p: float, seed: int) -> None:
    logits = torch.randn(1, 17, generator=torch.Generator().manual_seed(seed)) * 5
    token = draw(
        logits,
        temperature=torch.ones(1),
        top_p=torch.tensor([top_p], dtype=torch.float32),
        uniform=torch.tensor([uniform], dtype=torch.float64),
    )
    probabilities = logits.softmax(-1, dtype=torch.float64)[0]
    likelier = probabilities[probabilities > probabilities[token]].sum()
    assert float(likelier) < top_p + 1e-6


def test_uniforms_are_spread_and_seeds_apart() -> None:
    values = uniforms(np.arange(10_000))
    assert values.min() >= 0
    assert values.max() < 1
    assert abs(values.mean() - 0.5) < 0.02
    assert abs(np.corrcoef(values[:-1], values[1:])[0, 1]) < 0.05
