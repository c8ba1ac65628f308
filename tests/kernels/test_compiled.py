"""Every kernel compiled, on a GPU, in the model's dtype, against its reference."""

from typing import Any

import pytest
import torch

from kernels import (
    expert_histogram,
    fp8_quantise,
    grouped_gemm,
    permute,
    topk_gating,
    weighted_combine,
)
from tests.kernels.conftest import assert_near
from tests.kernels.routings import distinct

TOKENS, TOP_K, EXPERTS, WIDTH = 513, 8, 128, 256


def histogram(gpu):
    ids, buckets = distinct(TOKENS, TOP_K, EXPERTS, gpu), torch.arange(TOKENS, device=gpu) % 8
    counts = torch.zeros(8, EXPERTS, dtype=torch.int64, device=gpu)
    expert_histogram.expert_histogram(ids, buckets, counts)
    expected = torch.zeros_like(counts)
    expert_histogram.reference.expert_histogram(ids, buckets, expected)
    return counts, expected


def gating(gpu):
    logits, bias = torch.randn(TOKENS, EXPERTS, device=gpu), torch.randn(EXPERTS, device=gpu)
    options: dict[str, Any] = {
        "sigmoid": True,
        "renormalise": True,
        "num_groups": 8,
        "groups_kept": 4,
    }
    _, gates = topk_gating.topk_gating(logits, bias, TOP_K, **options)
    return gates, topk_gating.reference.topk_gating(logits, bias, TOP_K, **options)[1]


def permutation(gpu):
    slots = distinct(TOKENS, TOP_K, EXPERTS, gpu)
    x = torch.randn(TOKENS, WIDTH, device=gpu).bfloat16()
    order, place, _ = permute.sort_by_expert(slots, EXPERTS)
    back = permute.unpermute(permute.permute(x, order, TOP_K), place)
    return back, x.unsqueeze(1).expand_as(back)


def product(gpu):
    counts = torch.randint(0, 40, (EXPERTS,), device=gpu)
    x = torch.randn(int(counts.sum()), WIDTH, device=gpu).bfloat16()
    weights = torch.randn(EXPERTS, WIDTH, 64, device=gpu).bfloat16()
    ends = counts.cumsum(0).to(torch.int32)
    found = grouped_gemm.grouped_gemm(x, weights, ends)
    return found, grouped_gemm.reference.grouped_gemm(x, weights, ends)


def combination(gpu):
    place = torch.randperm(TOKENS * TOP_K, device=gpu).view(TOKENS, TOP_K)
    rows = torch.randn(TOKENS * TOP_K, WIDTH, device=gpu).bfloat16()
    gates = torch.rand(TOKENS, TOP_K, device=gpu)
    found = weighted_combine.weighted_combine(rows, place, gates)
    return found, weighted_combine.reference.weighted_combine(rows, place, gates)


def quantisation(gpu):
    x = torch.randn(TOKENS, WIDTH, device=gpu).bfloat16()
    found = fp8_quantise.dequantise(*fp8_quantise.quantise(x), torch.bfloat16)
    pair = fp8_quantise.reference.quantise(x)
    return found, fp8_quantise.reference.dequantise(*pair, torch.bfloat16)


@pytest.mark.gpu
@pytest.mark.parametrize("op", [histogram, gating, permutation, product, combination, quantisation])
def test_compiled_kernel_equals_reference(device, op):
    if device.type != "cuda":
        pytest.skip("no CUDA device: compiled kernels cannot run here")
    assert_near(*op(device), rms=5e-3)
