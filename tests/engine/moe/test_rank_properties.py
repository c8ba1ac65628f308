"""Whatever the split, placement, policy and capacity: many ranks are one."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from contract.runtime_config import CapacityDomain, OverflowPolicy
from engine.moe.layer import MoELayer
from engine.moe.spec import RouterKind
from engine.parallel.groups import LocalGroup
from tests.engine.moe.plain import make_context, make_spec, make_weights, plan
from tests.engine.moe.thread_ranks import run_threads

EXPERTS = 12
COUNTS = ("overflow", "rerouted", "spilled", "dropped", "executed", "tokens_all_dropped")


@st.composite
def scenes(draw):
    """Ranks with tokens, a placement with some replicas, and a capacity plan."""
    size = draw(st.integers(1, 4))
    tokens = draw(st.lists(st.integers(0, 30), min_size=size, max_size=size))
    spare = draw(st.integers(0, 2)) * size + (-EXPERTS % size)
    random = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    slots = torch.cat([torch.arange(EXPERTS), torch.randint(EXPERTS, (spare,), generator=random)])
    slots = slots[torch.randperm(len(slots), generator=random)]
    policies = [p for p in OverflowPolicy if p is not OverflowPolicy.SPILL or spare]
    chosen = plan(
        draw(st.sampled_from([None, "1", "1.25"])), policy=draw(st.sampled_from(policies)),
        cap_min=draw(st.integers(1, 4)), domain=draw(st.sampled_from(CapacityDomain)),
    )  # fmt: skip
    kind = draw(st.sampled_from([RouterKind.SIGMOID_BIAS, RouterKind.GROUP_LIMITED]))
    hidden = torch.randn(sum(tokens), 8, generator=random)
    return tokens, slots.tolist(), chosen, kind, hidden


def build(kind, weights, group, slots):
    per_rank = len(slots) // group.size
    mine = slots[group.rank * per_rank : (group.rank + 1) * per_rank]
    spec = make_spec(kind, experts=EXPERTS, top_k=3, hidden=8, width=4)
    return MoELayer(0, spec, weights.shard(mine), group, slots)


@settings(max_examples=40, deadline=None)
@given(scenes())
def test_many_ranks_are_one(scene):
    tokens, slots, chosen, kind, hidden = scene
    spec = make_spec(kind, experts=EXPERTS, top_k=3, hidden=8, width=4)
    weights = make_weights(spec, seed=3)
    parts = torch.split(hidden, tokens)

    def work(group):
        context = make_context(tokens[group.rank], plan=chosen)
        out = build(kind, weights, group, slots).forward(parts[group.rank], context)
        return out, context.recorder.outcomes[0]

    def alone(part):
        context = make_context(len(part), plan=chosen)
        out = build(kind, weights, LocalGroup(), slots).forward(part, context)
        return out, context.recorder.outcomes[0]

    ranks = run_threads(len(tokens), work)
    per_rank = chosen.domain is CapacityDomain.PER_SOURCE_RANK
    single = [alone(part) for part in parts] if per_rank else [alone(hidden)]

    torch.testing.assert_close(
        torch.cat([out for out, _ in ranks]), torch.cat([out for out, _ in single]),
        rtol=1e-4, atol=1e-5,
    )  # fmt: skip
    for name in COUNTS:
        found = {int(getattr(outcome, name)) for _, outcome in ranks}
        assert found == {sum(int(getattr(outcome, name)) for _, outcome in single)}, name
    outcome = ranks[0][1]
    assert outcome.overflow == outcome.rerouted + outcome.spilled + outcome.dropped
    assert outcome.executed + outcome.dropped == sum(tokens) * 3
    assert outcome.card_counts.sum() == outcome.executed
    assert outcome.card_counts.shape == (len(tokens),)


@settings(max_examples=15, deadline=None)
@given(scenes())
def test_without_capacity_the_layer_is_the_plain_moe(scene):
    tokens, slots, _, kind, hidden = scene
    spec = make_spec(kind, experts=EXPERTS, top_k=3, hidden=8, width=4)
    weights = make_weights(spec, seed=3)
    whole = MoELayer(0, spec, weights, LocalGroup()).forward(hidden, make_context(len(hidden)))
    parts = torch.split(hidden, tokens)

    def work(group):
        layer = build(kind, weights, group, slots)
        return layer.forward(parts[group.rank], make_context(tokens[group.rank]))

    out = torch.cat(run_threads(len(tokens), work))
    torch.testing.assert_close(out, whole, rtol=1e-4, atol=1e-5)
