"""Dense blocks and routed experts from a checkpoint."""

import torch
from torch import Tensor

from engine.model.checkpoint.source import TensorSource
from engine.model.mlp import DenseMLP
from engine.model.spec import ModelSpec
from engine.moe.weights import ExpertWeights, from_output_first


def read_dense(source: TensorSource, spec: ModelSpec, stem: str) -> DenseMLP:
    """The dense block of the layer whose tensors begin with `stem`."""
    gate_up, down = _read_gated(source, stem, spec.names.dense, spec.hidden, spec.inner)
    return DenseMLP(gate_up=gate_up, down=down)


def read_experts(
    source: TensorSource, spec: ModelSpec, stem: str, local_experts: tuple[int, ...]
) -> ExpertWeights:
    """Router, shared expert, and the routed experts that this rank holds, in slot order.

    Other ranks' experts are checked by shape and never read.
    """
    router = read_router(source, spec, stem)
    packed = spec.names.packed
    if packed is not None and source.has(f"{stem}.{packed[0]}"):
        gate_up, down = _read_packed(source, spec, stem, packed, local_experts)
    else:
        gate_up, down = _read_single(source, spec, stem, local_experts)
    shared_gate_up, shared_down = None, None
    if spec.names.shared is not None:
        shared_gate_up, shared_down = _read_gated(
            source, stem, spec.names.shared, spec.hidden, spec.shared_inner
        )
    return from_output_first(router, gate_up, down, shared_gate_up, shared_down)


def read_router(source: TensorSource, spec: ModelSpec, stem: str) -> Tensor:
    """The router's weight, FP32 [E, d] whatever the model's dtype."""
    name = f"{stem}.{spec.names.router}"
    return source.take(name, spec.moe.num_experts, spec.hidden, dtype=torch.float32)


def read_bias(source: TensorSource, spec: ModelSpec, stem: str) -> Tensor | None:
    """The selection bias, FP32 [E]; None where the family has none."""
    if spec.names.bias is None:
        return None
    name = f"{stem}.{spec.names.bias}"
    return source.take(name, spec.moe.num_experts, dtype=torch.float32)


def _read_gated(
    source: TensorSource, stem: str, names: tuple[str, str, str], hidden: int, inner: int
) -> tuple[Tensor, Tensor]:
    """Fuse gate and up: [2 · inner, d]; down: [d, inner]."""
    gate, up, down = (f"{stem}.{name}" for name in names)
    fused = torch.cat((source.take(gate, inner, hidden), source.take(up, inner, hidden)))
    return fused, source.take(down, hidden, inner)


def _read_packed(
    source: TensorSource, spec: ModelSpec, stem: str, names: tuple[str, str], local: tuple[int, ...]
) -> tuple[Tensor, Tensor]:
    experts, width, hidden = spec.moe.num_experts, spec.moe.expert_width, spec.hidden
    gate_up, down = (f"{stem}.{name}" for name in names)
    if spec.names.packed_input_first:
        first = source.take_rows(gate_up, list(local), experts, hidden, 2 * width)
        last = source.take_rows(down, list(local), experts, width, hidden)
        return first.transpose(1, 2), last.transpose(1, 2)
    return (
        source.take_rows(gate_up, list(local), experts, 2 * width, hidden),
        source.take_rows(down, list(local), experts, hidden, width),
    )


def _read_single(
    source: TensorSource, spec: ModelSpec, stem: str, local: tuple[int, ...]
) -> tuple[Tensor, Tensor]:
    width, hidden = spec.moe.expert_width, spec.hidden
    shapes = ((width, hidden), (width, hidden), (hidden, width))
    for expert in set(range(spec.moe.num_experts)) - set(local):
        for pattern, shape in zip(spec.names.expert, shapes, strict=True):
            source.check(f"{stem}.{pattern.format(expert)}", shape)
    gated = [_read_gated(source, stem, _names_of(spec, expert), hidden, width) for expert in local]
    return torch.stack([pair[0] for pair in gated]), torch.stack([pair[1] for pair in gated])


def _names_of(spec: ModelSpec, expert: int) -> tuple[str, str, str]:
    gate, up, down = (pattern.format(expert) for pattern in spec.names.expert)
    return gate, up, down
