import pytest
import torch

from engine.moe.router import build_router
from engine.moe.spec import MoESpec, RouterKind
from kernels.topk_gating import reference, triton_kernel
from tests.kernels.conftest import assert_near

CASES = [
    # tokens, experts, top-k, sigmoid, renormalise, groups, kept
    (0, 8, 2, True, True, 1, 1),
    (1, 1, 1, True, False, 1, 1),
    (5, 17, 3, False, True, 1, 1),
    (3, 17, 17, False, False, 1, 1),
    (5, 128, 8, True, True, 1, 1),
    (7, 24, 4, True, True, 4, 2),
    (7, 12, 2, True, True, 3, 1),
    (5, 6, 2, True, False, 6, 3),
]


def inputs(tokens, experts, device):
    random = torch.Generator().manual_seed(tokens + experts)
    logits = torch.randn(tokens, experts, generator=random)
    return logits.to(device), (torch.randn(experts, generator=random) * 0.2).to(device)


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_kernel_equals_reference(device, case, biased):
    tokens, experts, top_k, sigmoid, renormalise, groups, kept = case
    logits, bias = inputs(tokens, experts, device)
    options = {"sigmoid": sigmoid, "renormalise": renormalise, "scale": 2.5,
               "num_groups": groups, "groups_kept": kept}  # fmt: skip
    bias = bias if biased else None

    ids, gates = triton_kernel.topk_gating(logits, bias, top_k, **options)

    assert all(len(set(row.tolist())) == top_k for row in ids)
    assert ids.numel() == 0 or (ids.min() >= 0 and ids.max() < experts)
    if groups > 1:
        used = ids // (experts // groups)
        assert all(len(set(row.tolist())) <= kept for row in used)
    expected_ids, expected_gates = reference.topk_gating(logits, bias, top_k, **options)
    assert torch.equal(ids, expected_ids)
    assert_near(gates, expected_gates)


@pytest.mark.parametrize("implementation", [reference, triton_kernel], ids=["torch", "triton"])
def test_equal_scores_give_the_lower_ids(device, implementation):
    logits = torch.zeros(3, 10, device=device)
    ids, gates = implementation.topk_gating(logits, None, 4, sigmoid=True, renormalise=True)
    assert ids.tolist() == [[0, 1, 2, 3]] * 3
    assert_near(gates, torch.full((3, 4), 0.25, device=device))


@pytest.mark.parametrize(
    "kind", [RouterKind.SOFTMAX, RouterKind.SIGMOID_BIAS, RouterKind.GROUP_LIMITED]
)
def test_reference_is_what_the_routers_of_the_engine_do(kind):
    grouped = kind is RouterKind.GROUP_LIMITED
    groups, kept = (4, 2) if grouped else (1, 1)
    spec = MoESpec(8, 4, 24, 4, kind, num_groups=groups, groups_kept=kept)
    logits, bias = inputs(50, 24, torch.device("cpu"))
    ids, gates = reference.topk_gating(
        logits, bias, 4, sigmoid=kind is not RouterKind.SOFTMAX, renormalise=True,
        num_groups=groups, groups_kept=kept,
    )  # fmt: skip
    router = build_router(spec)
    scores = router.scores(logits)
    assert torch.equal(router.choose(scores, bias, 4), ids)
    assert_near(router.gates(scores.gather(1, ids)), gates)
