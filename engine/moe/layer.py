"""One MoE layer: router → capacity → dispatch → experts → combine, and the shared expert."""

from collections.abc import Sequence

import torch
from torch import Tensor

from contract.runtime_config import DispatchDtype
from engine.moe.admission import Admission, Admitter
from engine.moe.context import MoEStepContext
from engine.moe.dispatch import combine, dispatch
from engine.moe.experts import run_experts
from engine.moe.overflow import check_policy
from engine.moe.router import build_router
from engine.moe.routing import Routing, route
from engine.moe.spec import MoESpec
from engine.moe.swiglu import swiglu
from engine.moe.weights import ExpertWeights
from engine.parallel.all_to_all import AllToAll
from engine.parallel.groups import ExpertGroup
from engine.parallel.lookup import SlotLookup, build_lookup
from engine.parallel.stopwatch import CudaStopwatch, HostStopwatch
from kernels.fp8_quantise import dequantise, quantise


class MoELayer:
    """The MoE feed-forward of one decoder layer on one rank.

    Args:
        layer: index among the model's MoE layers, 0-based; the row of bias and counts.
        spec: shape and router.
        weights: router, this rank's experts in slot order, shared expert.
        group: the EP group; every rank runs the same layers in the same order.
        physical_to_logical: this layer's placement [S]; None is linear (slot = expert).
    """

    def __init__(
        self,
        layer: int,
        spec: MoESpec,
        weights: ExpertWeights,
        group: ExpertGroup,
        physical_to_logical: Sequence[int] | None = None,
    ) -> None:
        self.layer = layer
        self.spec = spec
        self.group = group
        self.router = build_router(spec)
        on_cuda = weights.router.device.type == "cuda"
        self._exchange = AllToAll(group, CudaStopwatch() if on_cuda else HostStopwatch())
        self.place(weights, physical_to_logical)

    def place(
        self, weights: ExpertWeights, physical_to_logical: Sequence[int] | None = None
    ) -> None:
        """Take another placement and the weights that go with it, at a step boundary.

        Raises:
            BadRequestError: the placement does not cover the experts or does not split by rank.
        """
        row = range(self.spec.num_experts) if physical_to_logical is None else physical_to_logical
        self.lookup: SlotLookup = build_lookup(
            row,
            num_experts=self.spec.num_experts,
            ranks=self.group.size,
            device=weights.router.device,
        )
        self.weights = weights
        self._admitter = Admitter(self.spec, self.router, self.lookup, self._exchange)

    def forward(self, hidden: Tensor, context: MoEStepContext) -> Tensor:
        """Run the layer on this rank's tokens, [T_loc, d] → [T_loc, d]; T_loc may be 0.

        Collective: every rank calls it for the same step, an idle one with no rows.

        Raises:
            RefusedError: the plan says `spill` and the placement has no replicas.
        """
        mark = context.phases.marker(self.layer)
        bias = None if context.bias is None else context.bias[self.layer]
        routing = route(self.router, self.spec.top_k, hidden, self.weights.router, bias)
        recorder = context.recorder
        recorder.routed(self.layer, routing.expert_ids, context.bucket_ids, context.is_decode)
        check_policy(context.plan.policy, has_replicas=self.lookup.has_replicas)
        admission = self._admitter.admit(routing, bias, context.plan)
        recorder.capacity(self.layer, admission.outcome)
        recorder.gate_mass(admission.kept_mass, admission.total_mass)
        mark("router")
        if context.sampled:
            self._sample(routing, context, admission.tokens)
        out = self._routed_experts(hidden, admission, context)
        if self.weights.shared_gate_up is None or self.weights.shared_down is None:
            return out
        shared = swiglu(hidden @ self.weights.shared_gate_up)
        return torch.addmm(out, shared, self.weights.shared_down)

    def _routed_experts(
        self, hidden: Tensor, admission: Admission, context: MoEStepContext
    ) -> Tensor:
        mark = context.phases.marker(self.layer)
        wire = context.plan.dispatch_dtype
        if self.group.size == 1:
            x = hidden
            if wire is DispatchDtype.FP8_E4M3:
                x = dequantise(*quantise(hidden), hidden.dtype)
            out = self._experts(x, admission.slots, admission.gates, admission.slot_counts)
            mark("expert_gemm")
            return out
        for cost in self._exchange.costs(admission.compute_nanoseconds):
            context.recorder.exchange(
                self.layer, cost.op, cost.wait_seconds, cost.transfer_seconds, cost.bytes_sent,
                cost.message_bytes,
            )  # fmt: skip
        received = dispatch(
            self._exchange, self.lookup, hidden, admission.slots, admission.gates, admission.rows,
            wire, mark,
        )  # fmt: skip
        partial = self._experts(received.x, received.slots, received.gates)
        mark("expert_gemm")
        out = combine(self._exchange, received, partial, len(hidden))
        mark("combine")
        return out

    def _experts(
        self, x: Tensor, slots: Tensor, gates: Tensor, counts: Tensor | None = None
    ) -> Tensor:
        return run_experts(
            x, slots, gates, self.weights.gate_up, self.weights.down,
            counts=counts, gate_on_input=self.spec.gate_on_input,
        )  # fmt: skip

    def _sample(self, routing: Routing, context: MoEStepContext, group_tokens: int) -> None:
        """Leave this step's scores, and what the last known good bias would have chosen."""
        lkg_ids = routing.expert_ids
        if context.lkg_bias is not None:
            lkg = context.lkg_bias[self.layer]
            lkg_ids = self.router.choose(routing.scores, lkg, self.spec.top_k)
        context.recorder.sampled(self.layer, routing.expert_ids, lkg_ids, context.bucket_ids)
        if context.reservoir is not None:
            context.reservoir.add(
                context.step, self.layer, routing.scores, routing.expert_ids, context.bucket_ids,
                group_tokens=group_tokens,
            )  # fmt: skip
