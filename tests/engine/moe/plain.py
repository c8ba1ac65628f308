"""The obvious MoE, token by token, and small layers to hold against it."""

from dataclasses import dataclass, field, fields, replace
from fractions import Fraction

import torch
from torch.nn import functional

from contract.runtime_config import CapacityDomain, DispatchDtype, OverflowMode, OverflowPolicy
from engine.moe.context import CapacityPlan, MoEStepContext
from engine.moe.spec import MoESpec, RouterKind
from engine.moe.weights import ExpertWeights
from engine.telemetry.null_recorder import NullRecorder


@dataclass
class KeepingRecorder(NullRecorder):
    """Keeps what the layer says, in order."""

    outcomes: list = field(default_factory=list)
    routings: list = field(default_factory=list)
    samples: list = field(default_factory=list)
    exchanges: list = field(default_factory=list)
    masses: list = field(default_factory=list)

    def routed(self, layer, expert_ids, bucket_ids, is_decode):
        self.routings.append((layer, expert_ids, bucket_ids, is_decode))

    def sampled(self, layer, live_ids, counterfactual_ids, bucket_ids):
        self.samples.append((layer, live_ids, counterfactual_ids, bucket_ids))

    def capacity(self, layer, outcome):
        self.outcomes.append(of_layer(outcome.together([outcome]), 0))

    def exchange(self, *exchange):
        self.exchanges.append(exchange)

    def gate_mass(self, kept, total):
        self.masses.append((float(kept.sum()), float(total.sum())))


def of_layer(counted, layer):
    """The part of a `CapacityOutcome` that is one layer's."""
    return replace(
        counted,
        **{
            each.name: getattr(counted, each.name)[layer]
            for each in fields(counted)
            if isinstance(getattr(counted, each.name), torch.Tensor)
        },
    )


def make_spec(kind=RouterKind.SIGMOID_BIAS, *, experts=16, top_k=4, hidden=24, width=10):
    """A small spec of a router kind."""
    return MoESpec(
        hidden=hidden, expert_width=width, num_experts=experts,
        top_k=1 if kind is RouterKind.SIGMOID_TOP1 else top_k, router=kind,
        renormalise=kind is not RouterKind.SIGMOID_TOP1, routed_scale=1.0 if
        kind is RouterKind.SIGMOID_TOP1 else 2.5,
        num_groups=4 if kind is RouterKind.GROUP_LIMITED else 1,
        groups_kept=2 if kind is RouterKind.GROUP_LIMITED else 1,
        gate_on_input=kind is RouterKind.SIGMOID_TOP1,
    )  # fmt: skip


def make_weights(spec, *, seed, grad=False, dtype=torch.float32):
    """Random weights with a shared expert."""
    random = torch.Generator().manual_seed(seed)

    def tensor(*shape, of=dtype):
        values = torch.randn(*shape, generator=random) * shape[-2] ** -0.5
        return values.to(of).requires_grad_(grad)

    return ExpertWeights(
        router=tensor(spec.num_experts, spec.hidden, of=torch.float32),
        gate_up=tensor(spec.num_experts, spec.hidden, 2 * spec.expert_width),
        down=tensor(spec.num_experts, spec.expert_width, spec.hidden),
        shared_gate_up=tensor(spec.hidden, 2 * spec.expert_width),
        shared_down=tensor(spec.expert_width, spec.hidden),
    )


def plan(
    factor,
    *,
    policy=OverflowPolicy.DROP,
    mode=OverflowMode.ENFORCED,
    cap_min=8,
    domain=CapacityDomain.GLOBAL,
    wire=DispatchDtype.NATIVE,
):
    """A capacity plan; `factor` None is dropless."""
    factor = None if factor is None else Fraction(factor)
    return CapacityPlan(factor, cap_min, mode, policy, domain, wire)


def make_context(tokens, *, plan=plan(None), bias=None, lkg=None, sampled=False, **more):  # noqa: B008
    """A step with a recorder that keeps everything."""
    return MoEStepContext(
        plan=plan, bias=bias, lkg_bias=lkg, sampled=sampled,
        bucket_ids=torch.arange(tokens) % 8, is_decode=torch.ones(tokens, dtype=torch.bool),
        recorder=KeepingRecorder(), **more,
    )  # fmt: skip


def swiglu_mlp(x, gate_up, down):
    gate, up = (x @ gate_up).chunk(2, dim=-1)
    return (functional.silu(gate) * up) @ down


def choose(spec, row, bias):
    """Scores and experts of one token, by the definition."""
    logits = row.float()
    scores = logits.softmax(-1) if spec.router is RouterKind.SOFTMAX else logits.sigmoid()
    biased = scores if bias is None else scores + bias
    if spec.num_groups > 1:
        groups = biased.view(spec.num_groups, -1)
        worth = [float(group.sort(descending=True).values[:2].sum()) for group in groups]
        best = sorted(range(spec.num_groups), key=lambda g: -worth[g])[: spec.groups_kept]
        size = groups.shape[1]
        biased = torch.tensor(
            [float(v) if e // size in best else float("-inf") for e, v in enumerate(biased)]
        )
    ids = sorted(range(spec.num_experts), key=lambda e: -float(biased[e]))[: spec.top_k]
    return scores, ids


def plain_moe(spec, weights, hidden, bias=None):
    """Σ gate · expert(x) for every token, plus the shared expert."""
    out = torch.zeros_like(hidden)
    for t, x in enumerate(hidden):
        scores, ids = choose(spec, weights.router @ x.float(), bias)
        total = sum(scores[e] for e in ids) if spec.renormalise else 1.0
        for e in ids:
            gate = scores[e] / total * spec.routed_scale
            if spec.gate_on_input:
                out[t] += swiglu_mlp(x * gate, weights.gate_up[e], weights.down[e])
            else:
                out[t] += gate * swiglu_mlp(x, weights.gate_up[e], weights.down[e])
    return out + swiglu_mlp(hidden, weights.shared_gate_up, weights.shared_down)
