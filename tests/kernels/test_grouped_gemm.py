import pytest
import torch

from kernels.grouped_gemm import grouped_gemm, reference, triton_kernel
from tests.kernels.conftest import assert_near

COUNTS = [[0], [1], [5], [0, 0, 3], [40, 0, 1, 0, 33], [0, 70, 0], [2, 3, 31, 32, 33]]
WIDTHS = [(1, 1), (17, 5), (32, 64), (70, 67)]


def operands(counts, depth, width, device, dtype=torch.float32, spare=0):
    random = torch.Generator().manual_seed(sum(counts) + depth)
    x = torch.randn(sum(counts) + spare, depth, generator=random).to(dtype)
    weights = torch.randn(len(counts), depth, width, generator=random).to(dtype)
    ends = torch.tensor(counts).cumsum(0).to(torch.int32)
    return x.to(device), weights.to(device), ends.to(device)


@pytest.mark.parametrize(("depth", "width"), WIDTHS)
@pytest.mark.parametrize("counts", COUNTS, ids=str)
def test_kernel_equals_reference(device, counts, depth, width):
    x, weights, ends = operands(counts, depth, width, device)
    out = triton_kernel.grouped_gemm(x, weights, ends)
    assert_near(out, reference.grouped_gemm(x, weights, ends))


def test_half_precision_is_accumulated_in_float32(device):
    # The interpreter multiplies the bit patterns of bfloat16, so float16 stands in for it there.
    half = torch.bfloat16 if device.type == "cuda" else torch.float16
    x, weights, ends = operands([3, 0, 9], 200, 24, device, half)
    out = triton_kernel.grouped_gemm(x, weights, ends)
    exact = reference.grouped_gemm(x.float(), weights.float(), ends)
    assert_near(out, exact.to(half), rms=1e-3)


def test_rows_past_the_last_expert_are_zero_and_touch_nothing(device):
    x, weights, ends = operands([3, 2], 16, 16, device, spare=4)
    x[5:] = float("nan")
    out = triton_kernel.grouped_gemm(x, weights, ends)
    assert (out[5:] == 0).all()
    assert_near(out, reference.grouped_gemm(x, weights, ends))


def test_transposed_weights_are_read_by_their_strides(device):
    x, weights, ends = operands([4, 6], 8, 12, device)
    strided = weights.transpose(1, 2).contiguous().transpose(1, 2)
    assert_near(
        triton_kernel.grouped_gemm(x, strided, ends), reference.grouped_gemm(x, weights, ends)
    )


@pytest.mark.parametrize(("depth", "width"), [(16, 8), (5, 3)])
def test_the_public_function_equals_the_reference_on_cpu(depth, width):
    x, weights, ends = operands([4, 0, 6], depth, width, "cpu")
    assert_near(grouped_gemm(x, weights, ends), reference.grouped_gemm(x, weights, ends))
