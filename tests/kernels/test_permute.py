import pytest
import torch

from kernels.permute import reference, triton_kernel
from tests.kernels.conftest import assert_near
from tests.kernels.routings import ROUTINGS, SHAPES

WIDTH = 37


@pytest.mark.parametrize("routing", ROUTINGS)
@pytest.mark.parametrize(("tokens", "top_k", "experts"), SHAPES)
@pytest.mark.parametrize("implementation", [reference, triton_kernel], ids=["torch", "triton"])
def test_order_is_a_stable_permutation_by_expert(
    device, implementation, routing, tokens, top_k, experts
):
    slots = routing(tokens, top_k, experts, device)
    order, place, ends = implementation.sort_by_expert(slots, experts)

    held = int((slots >= 0).sum())
    counts = torch.bincount(slots[slots >= 0], minlength=experts)
    assert torch.equal(ends.long(), counts.cumsum(0))
    assert ends.dtype == torch.int32
    assert (order[held:] == -1).all()
    kept = order[:held]
    assert torch.equal(place.flatten()[kept], torch.arange(held, device=device))
    assert torch.equal(place >= 0, slots >= 0)
    sorted_slots = slots.flatten()[kept]
    assert (sorted_slots.diff() >= 0).all()
    assert (kept.diff() > 0)[sorted_slots.diff() == 0].all()


@pytest.mark.parametrize("routing", ROUTINGS)
@pytest.mark.parametrize(("tokens", "top_k", "experts"), SHAPES)
@pytest.mark.parametrize("implementation", [reference, triton_kernel], ids=["torch", "triton"])
def test_unpermute_inverts_permute(device, implementation, routing, tokens, top_k, experts):
    slots = routing(tokens, top_k, experts, device)
    x = torch.randn(tokens, WIDTH).to(device)
    order, place, _ = reference.sort_by_expert(slots, experts)

    rows = implementation.permute(x, order, slots.shape[1])
    back = implementation.unpermute(rows, place)

    expected = x.unsqueeze(1).expand(tokens, slots.shape[1], WIDTH) * (slots >= 0).unsqueeze(-1)
    assert_near(back, expected, rms=0)
