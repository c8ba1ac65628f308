"""Both sides of the layer benchmark compute the same thing."""

import pytest
import torch

from trimtab.bench.moe_layer import build_pair


@pytest.mark.parametrize(("experts", "tokens"), [(8, 64), (128, 64)])
def test_both_sides_agree(experts, tokens):
    with torch.inference_mode():
        pair = build_pair(experts, tokens)
        ours = pair.ours()
        for step in pair.theirs.values():
            torch.testing.assert_close(ours, step(), rtol=1e-4, atol=1e-4)
