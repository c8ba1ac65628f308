"""The layer against a plain loop over tokens, on one rank."""

from fractions import Fraction

import pytest
import torch

from contract.runtime_config import CapacityDomain, DispatchDtype, OverflowMode, OverflowPolicy
from engine.errors import RefusedError
from engine.moe.layer import MoELayer
from engine.moe.spec import RouterKind
from engine.parallel.groups import LocalGroup
from tests.engine.moe.plain import make_context, make_spec, make_weights, plain_moe, plan

ROUTERS = list(RouterKind)


@pytest.mark.parametrize("kind", ROUTERS)
@pytest.mark.parametrize("tokens", [0, 1, 7, 65, 300])
def test_equals_the_plain_moe_when_nothing_overflows(kind, tokens):
    spec = make_spec(kind)
    weights = make_weights(spec, seed=tokens)
    hidden = torch.randn(tokens, spec.hidden, generator=torch.Generator().manual_seed(1))
    bias = torch.randn(1, spec.num_experts, generator=torch.Generator().manual_seed(2)) * 0.1
    layer = MoELayer(0, spec, weights, LocalGroup())

    out = layer.forward(hidden, make_context(tokens, bias=bias))

    torch.testing.assert_close(out, plain_moe(spec, weights, hidden, bias[0]), rtol=1e-4, atol=1e-5)


def test_gradients_reach_router_experts_and_input():
    spec = make_spec(RouterKind.SIGMOID_BIAS)
    weights = make_weights(spec, seed=0, grad=True)
    hidden = torch.randn(200, spec.hidden, requires_grad=True)

    MoELayer(0, spec, weights, LocalGroup()).forward(hidden, make_context(200)).sum().backward()

    for tensor in (hidden, weights.router, weights.gate_up, weights.down, weights.shared_down):
        assert tensor.grad is not None
        assert tensor.grad.isfinite().all()


def test_the_bias_moves_the_choice_and_not_the_gates():
    spec = make_spec(RouterKind.SIGMOID_BIAS)
    weights = make_weights(spec, seed=3)
    hidden = torch.randn(9, spec.hidden)
    layer = MoELayer(0, spec, weights, LocalGroup())
    uniform = torch.full((1, spec.num_experts), 0.37)

    shifted = layer.forward(hidden, make_context(9, bias=uniform))

    torch.testing.assert_close(shifted, layer.forward(hidden, make_context(9)))


def test_fp8_dispatch_stays_close_and_leaves_the_routing_alone():
    spec = make_spec(RouterKind.SIGMOID_BIAS)
    weights = make_weights(spec, seed=3)
    hidden = torch.randn(64, spec.hidden)
    layer = MoELayer(0, spec, weights, LocalGroup())
    exact = layer.forward(hidden, make_context(64))

    fp8 = layer.forward(hidden, make_context(64, plan=plan(None, wire=DispatchDtype.FP8_E4M3)))

    assert not torch.equal(fp8, exact)
    assert (fp8 - exact).norm() / exact.norm() < 0.05


def test_spill_without_replicas_is_refused():
    spec = make_spec(RouterKind.SIGMOID_BIAS)
    layer = MoELayer(0, spec, make_weights(spec, seed=0), LocalGroup())
    spill = plan(Fraction(1), policy=OverflowPolicy.SPILL)

    with pytest.raises(RefusedError, match="single copy"):
        layer.forward(torch.randn(4, spec.hidden), make_context(4, plan=spill))


@pytest.mark.parametrize("domain", list(CapacityDomain))
def test_virtual_mode_counts_overflow_and_changes_nothing(domain):
    spec = make_spec(RouterKind.SIGMOID_BIAS)
    weights = make_weights(spec, seed=5)
    hidden = torch.randn(64, spec.hidden)
    layer = MoELayer(0, spec, weights, LocalGroup())
    context = make_context(
        64, plan=plan(Fraction(1), mode=OverflowMode.VIRTUAL, cap_min=1, domain=domain)
    )

    out = layer.forward(hidden, context)

    outcome = context.recorder.outcomes[0]
    assert outcome.overflow > 0
    assert outcome.dropped == outcome.rerouted == outcome.spilled == 0
    assert outcome.executed == 64 * spec.top_k
    torch.testing.assert_close(out, layer.forward(hidden, make_context(64)))
