"""The path that CUDA takes, through Triton's interpreter: the same layer, kernel by kernel."""

import pytest
import torch

from engine.moe import experts, routing
from engine.moe.layer import MoELayer
from engine.moe.spec import RouterKind
from engine.parallel.groups import LocalGroup
from kernels import fp8_quantise, grouped_gemm, permute, topk_gating, weighted_combine
from tests.engine.moe.plain import make_context, make_spec, make_weights, plan

SWITCHES = (experts, routing, fp8_quantise, grouped_gemm, permute, topk_gating, weighted_combine)


@pytest.mark.parametrize("kind", list(RouterKind))
@pytest.mark.parametrize("factor", [None, "1"])
def test_the_layer_is_the_same_on_kernels(monkeypatch, kind, factor):
    if torch.cuda.is_available():
        pytest.skip("Triton is compiled on this machine: its interpreter is off")
    spec = make_spec(kind, experts=8, top_k=2, hidden=20, width=6)
    layer = MoELayer(0, spec, make_weights(spec, seed=1), LocalGroup())
    hidden = torch.randn(11, spec.hidden, generator=torch.Generator().manual_seed(4))
    bias = torch.randn(1, 8, generator=torch.Generator().manual_seed(5)) * 0.1
    step = make_context(11, plan=plan(factor, cap_min=1), bias=bias)
    with torch.inference_mode():
        expected = layer.forward(hidden, step)
        for module in SWITCHES:
            monkeypatch.setattr(module, "uses_triton", lambda _device: True)
        found = layer.forward(hidden, step)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    assert step.recorder.outcomes[0].dropped == step.recorder.outcomes[1].dropped
