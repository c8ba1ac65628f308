import pytest
import torch

from kernels.expert_histogram import reference, triton_kernel
from tests.kernels.routings import ROUTINGS, SHAPES

BUCKETS = 3


@pytest.mark.parametrize("routing", ROUTINGS)
@pytest.mark.parametrize(("tokens", "top_k", "experts"), SHAPES)
@pytest.mark.parametrize("implementation", [reference, triton_kernel], ids=["torch", "triton"])
def test_counts_one_layer_of_a_bucketed_tensor(
    device, implementation, routing, tokens, top_k, experts
):
    ids = routing(tokens, top_k, experts, device)
    buckets = torch.arange(tokens, device=device) * 7 % BUCKETS
    counts = torch.full((BUCKETS, 2, experts), 5, device=device)

    implementation.expert_histogram(ids, buckets, counts[:, 1])

    assert (counts[:, 0] == 5).all()
    added = counts[:, 1] - 5
    assert added.sum() == (ids >= 0).sum()
    for bucket in range(BUCKETS):
        held = ids[buckets == bucket]
        expected = torch.bincount(held[held >= 0], minlength=experts)
        assert torch.equal(added[bucket], expected)
