import pytest
import torch

from engine.model.rotary import RotaryTable, inverse_frequencies
from engine.model.spec import RopeType, RotarySpec
from tests.support.models import CPU


@pytest.mark.parametrize("interleaved", [False, True])
def test_scores_depend_on_distance_alone(interleaved: bool) -> None:
    table = RotaryTable(RotarySpec(width=8, theta=100.0, interleaved=interleaved), 64, CPU)
    query, key = torch.randn(2, 1, 1, 8, generator=torch.Generator().manual_seed(0))

    def score(query_position: int, key_position: int) -> float:
        turned = table.at(torch.tensor([query_position])).apply(query)
        return float((turned * table.at(torch.tensor([key_position])).apply(key)).sum())

    assert score(9, 4) == pytest.approx(score(50, 45), abs=1e-5)
    assert score(9, 4) != pytest.approx(score(9, 5), abs=1e-3)


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
