"""One conformance suite for all router kinds, and what sets each apart."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import CheckpointError
from engine.moe.router import build_router
from engine.moe.routing import route
from engine.moe.spec import MoESpec, RouterKind
from tests.engine.moe.plain import choose, make_spec, make_weights

KINDS = list(RouterKind)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**31), tokens=st.integers(0, 20), biased=st.booleans())
def test_conformance(kind, seed, tokens, biased):
    spec = make_spec(kind)
    random = torch.Generator().manual_seed(seed)
    hidden = torch.randn(tokens, spec.hidden, generator=random)
    weight = make_weights(spec, seed=seed).router
    bias = torch.randn(spec.num_experts, generator=random) if biased else None

    routing = route(build_router(spec), spec.top_k, hidden, weight, bias)

    assert routing.expert_ids.shape == routing.gates.shape == (tokens, spec.top_k)
    assert routing.scores.dtype == routing.gates.dtype == torch.float32
    assert (routing.scores >= 0).all()
    for t in range(tokens):
        scores, ids = choose(spec, weight @ hidden[t], bias)
        assert sorted(routing.expert_ids[t].tolist()) == sorted(ids)
        torch.testing.assert_close(routing.scores[t], scores)
    if spec.renormalise:
        torch.testing.assert_close(routing.gates.sum(1), torch.full((tokens,), spec.routed_scale))
    else:
        torch.testing.assert_close(routing.gates, routing.chosen * spec.routed_scale)


@pytest.mark.parametrize("kind", KINDS)
def test_more_candidates_only_append(kind):
    spec = make_spec(kind)
    router = build_router(spec)
    scores = router.scores(torch.randn(30, spec.num_experts))
    few = router.choose(scores, None, spec.top_k)
    many = router.choose(scores, None, spec.reachable_experts)
    assert torch.equal(many[:, : spec.top_k], few)
    assert all(len(set(row.tolist())) == spec.reachable_experts for row in many)


@pytest.mark.parametrize("kind", KINDS)
def test_bfloat16_hidden_states_are_routed_in_float32(kind):
    spec = make_spec(kind)
    hidden = torch.randn(8, spec.hidden).bfloat16()
    weight = make_weights(spec, seed=1).router
    routing = route(build_router(spec), spec.top_k, hidden, weight, None)
    exact = route(build_router(spec), spec.top_k, hidden.float(), weight, None)
    assert torch.equal(routing.scores, exact.scores)


def test_a_bias_below_bfloat16_resolution_still_decides():
    spec = make_spec(RouterKind.SIGMOID_BIAS, experts=4, top_k=1)
    scores = torch.full((1, 4), 0.5)
    bias = torch.tensor([0.0, 1e-4, 0.0, 0.0])
    assert build_router(spec).choose(scores, bias, 1).item() == 1
    assert (scores.bfloat16() + bias.bfloat16()).unique().numel() == 1


def test_softmax_without_renormalising_gives_the_probabilities():
    spec = MoESpec(8, 4, 6, 2, RouterKind.SOFTMAX, renormalise=False)
    router = build_router(spec)
    chosen = router.scores(torch.randn(3, 6))[:, :2]
    assert torch.equal(router.gates(chosen), chosen)


def test_group_limited_uses_no_more_groups_than_it_may():
    spec = make_spec(RouterKind.GROUP_LIMITED)
    router = build_router(spec)
    ids = router.choose(torch.rand(200, 16), None, 4)
    assert max(len(set(row.tolist())) for row in ids // 4) <= spec.groups_kept


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"top_k": 9}, "top_k"),
        ({"num_groups": 3}, "num_groups"),
        ({"num_groups": 4, "groups_kept": 1, "top_k": 3}, "top_k"),
        ({"router": RouterKind.SIGMOID_TOP1}, "top_k"),
    ],
)
def test_an_impossible_shape_is_refused_by_field(changes, field):
    shape = {"hidden": 8, "expert_width": 4, "num_experts": 8, "top_k": 2,
             "router": RouterKind.SIGMOID_BIAS} | changes  # fmt: skip
    with pytest.raises(CheckpointError) as caught:
        MoESpec(**shape)
    assert caught.value.field == field
