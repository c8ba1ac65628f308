import pytest
import torch

from engine.model.attend import mix


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("batch", "heads", "context", "width"), [(1, 1, 1, 1), (5, 3, 48, 17), (2, 8, 200, 32)]
)
def test_rows_are_mixed_as_by_a_product(
    batch: int, heads: int, context: int, width: int, dtype: torch.dtype
) -> None:
    weights = torch.rand(batch, heads, context).softmax(-1).to(dtype)
    value = torch.randn(2, batch, context, width).to(dtype)[1]
    wanted = torch.bmm(weights, value)
    for grad in (False, True):
        with torch.set_grad_enabled(grad):
            torch.testing.assert_close(mix(weights, value), wanted)


def test_a_gradient_passes() -> None:
    weights = torch.rand(2, 3, 4).requires_grad_()
    mix(weights, torch.randn(2, 4, 5)).sum().backward()
    assert weights.grad is not None
