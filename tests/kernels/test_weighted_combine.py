import pytest
import torch

from kernels.permute.reference import sort_by_expert
from kernels.weighted_combine import reference, triton_kernel
from tests.kernels.conftest import assert_near
from tests.kernels.routings import ROUTINGS, SHAPES

WIDTH = 131


@pytest.mark.parametrize("routing", ROUTINGS)
@pytest.mark.parametrize(("tokens", "top_k", "experts"), SHAPES)
@pytest.mark.parametrize("implementation", [reference, triton_kernel], ids=["torch", "triton"])
def test_sums_the_rows_of_a_token_by_gate(device, implementation, routing, tokens, top_k, experts):
    slots = routing(tokens, top_k, experts, device)
    _, place, ends = sort_by_expert(slots, experts)
    rows = torch.randn(int(ends[-1]), WIDTH).to(device)
    gates = torch.rand(slots.shape).to(device)
    gates[slots < 0] = float("nan")

    out = implementation.weighted_combine(rows, place, gates)

    expected = torch.zeros(tokens, WIDTH, device=device)
    for token in range(tokens):
        for j in range(slots.shape[1]):
            if slots[token, j] >= 0:
                expected[token] += gates[token, j] * rows[place[token, j]]
    assert_near(out, expected)


def test_bfloat16_rows_are_added_in_float32(device):
    rows = torch.cat([torch.tensor([[256.0]]), torch.full((8, 1), 1.0)]).bfloat16().to(device)
    place = torch.arange(9, device=device).view(1, 9)
    out = triton_kernel.weighted_combine(rows, place, torch.ones(1, 9, device=device))
    assert out.item() == 264.0
