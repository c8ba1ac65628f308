import pytest
import torch

from kernels.fp8_quantise import E4M3_MAX, TILE, reference, triton_kernel
from tests.kernels.conftest import assert_near

SHAPES = [(0, 128), (1, 1), (3, 127), (5, 128), (2, 129), (4, 300)]


def rows(n, width, device):
    x = torch.randn(n, width, generator=torch.Generator().manual_seed(n * width))
    if n > 2:
        x[0] = 0
        x[1] *= 1e4
        x[2, 0] = 3e3
    return x.to(device)


@pytest.mark.parametrize(("n", "width"), SHAPES)
def test_kernel_equals_reference(device, n, width):
    x = rows(n, width, device)
    values, scales = triton_kernel.quantise(x)
    expected, expected_scales = reference.quantise(x)

    assert (values.float().abs() <= E4M3_MAX).all()
    assert scales.shape == (n, -(-width // TILE))
    assert_near(scales, expected_scales)
    assert_near(values.float(), expected.float(), rms=1e-3)
    back = triton_kernel.dequantise(values, scales, torch.float32)
    assert_near(back, reference.dequantise(values, scales, torch.float32))


@pytest.mark.parametrize("implementation", [reference, triton_kernel], ids=["torch", "triton"])
def test_a_row_comes_back_within_three_percent(device, implementation):
    x = rows(6, 640, device)
    back = implementation.dequantise(*implementation.quantise(x), torch.float32)
    error = (back - x).norm(dim=1) / x.norm(dim=1).clamp_min(1e-9)
    assert error.max() < 0.03
    assert (back[0] == 0).all()


def test_bytes_of_a_row_are_those_of_the_published_format():
    values, scales = reference.quantise(torch.randn(1, 7168))
    assert values.nbytes + scales.nbytes == 7392
