import pytest
import torch

from engine.model.rotary import RotaryTable, inverse_frequencies, paired
from engine.model.spec import RopeType, RotarySpec
from tests.support.models import CPU


def turned(table: RotaryTable, x: torch.Tensor, position: int) -> torch.Tensor:
    x = x.clone()
    table.at(torch.tensor([position])).turn_(x)
    return x


def test_scores_depend_on_distance_alone() -> None:
    table = RotaryTable(RotarySpec(width=8, theta=100.0), 64, CPU)
    query, key = torch.randn(2, 1, 1, 8, generator=torch.Generator().manual_seed(0))

    def score(query_position: int, key_position: int) -> float:
        return float(
            (turned(table, query, query_position) * turned(table, key, key_position)).sum()
        )

    assert score(9, 4) == pytest.approx(score(50, 45), abs=1e-5)
    assert score(9, 4) != pytest.approx(score(9, 5), abs=1e-3)


def test_a_slice_that_starts_at_an_odd_place_turns_like_a_copy_of_it() -> None:
    table = RotaryTable(RotarySpec(width=6, theta=100.0), 64, CPU)
    whole = torch.randn(1, 3, 13, generator=torch.Generator().manual_seed(0))
    expected = turned(table, whole[..., 7:].contiguous(), 5)
    table.at(torch.tensor([5])).turn_(whole[..., 7:])
    assert torch.equal(whole[..., 7:], expected)


@pytest.mark.parametrize("interleaved", [False, True])
def test_pairs_of_a_checkpoint_become_neighbours(interleaved: bool) -> None:
    spec = RotarySpec(width=6, theta=100.0, interleaved=interleaved)
    rows = torch.arange(12).unsqueeze(1)
    expected = list(range(12)) if interleaved else [0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11]
    assert paired(rows, 2, spec).flatten().tolist() == expected


@pytest.mark.parametrize("rope_type", [RopeType.LLAMA3, RopeType.YARN])
def test_stretching_keeps_fast_pairs_and_slows_the_slowest_by_the_factor(
    rope_type: RopeType,
) -> None:
    plain = inverse_frequencies(RotarySpec(width=64, theta=1e6))
    stretched = inverse_frequencies(
        RotarySpec(width=64, theta=1e6, rope_type=rope_type, factor=8.0, original_context=1024)
    )
    assert stretched[0] == pytest.approx(float(plain[0]))
    assert stretched[-1] == pytest.approx(float(plain[-1]) / 8)
