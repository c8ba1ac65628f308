"""Load a checkpoint: the decoder of one rank, or only the facts of the model."""

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from engine.errors import CheckpointError
from engine.model.checkpoint.attention import read_attention
from engine.model.checkpoint.feed_forward import read_bias, read_dense, read_experts, read_router
from engine.model.checkpoint.files import read_config, tensor_files
from engine.model.checkpoint.source import TensorSource
from engine.model.decoder import Decoder, DecoderLayer
from engine.model.families.registry import read_spec
from engine.model.norm import RMSNorm
from engine.model.rotary import RotaryTable
from engine.model.spec import ModelSpec
from engine.moe.layer import MoELayer
from engine.moe.weights import ExpertWeights
from engine.parallel.groups import ExpertGroup

Placement = npt.NDArray[np.int64]
_LAYER = re.compile(r"model\.layers\.(\d+)\.")


@dataclass(frozen=True, slots=True)
class CheckpointFacts:
    """What the engine says of a model without loading it.

    Attributes:
        name: the folder's.
        spec: the model.
        expert_set_hash: SHA-256 naming the routed experts: a bias fits only the same set.
        bias: the checkpoint's selection bias, FP32 [MoE layers, E], None where it has none.
    """

    name: str
    spec: ModelSpec
    expert_set_hash: str
    bias: npt.NDArray[np.float32] | None


def load_model(
    checkpoint: Path,
    *,
    group: ExpertGroup,
    device: torch.device,
    dtype: torch.dtype,
    placement: Placement | None = None,
    context_tokens: int | None = None,
) -> Decoder:
    """Load one rank's share: its own routed experts, everything else whole.

    Args:
        checkpoint: folder in Hugging Face layout.
        group: the EP group of the MoE layers.
        device: of the weights.
        dtype: of the weights; the router stays FP32.
        placement: logical expert of each slot, int64 [MoE layers, slots]; None is linear.
        context_tokens: positions to prepare for; None takes the checkpoint's context.

    Raises:
        CheckpointError: a field or tensor is missing, extra, wrong or not honoured; named.
    """
    spec = read_spec(read_config(checkpoint))
    with TensorSource(tensor_files(checkpoint), device, dtype) as source:
        embedding = source.take("model.embed_tokens.weight", spec.vocabulary, spec.hidden)
        layers = tuple(
            _read_layer(source, spec, index, placement, group) for index in range(len(spec.layers))
        )
        norm = _norm(source, spec, "model.norm")
        head = embedding
        if not spec.tied:
            head = source.take("lm_head.weight", spec.vocabulary, spec.hidden)
        source.finish(lambda name: _may_ignore(name, spec))
    return Decoder(
        spec=spec, embedding=embedding, layers=layers, norm=norm, head=head,
        rotary=RotaryTable(spec.rotary, context_tokens or spec.context, device),
    )  # fmt: skip


def load_experts(
    checkpoint: Path,
    *,
    group: ExpertGroup,
    device: torch.device,
    dtype: torch.dtype,
    placement: Placement | None,
) -> tuple[ExpertWeights, ...]:
    """Only the MoE weights, for a rank whose placement changes; one for each MoE layer."""
    spec = read_spec(read_config(checkpoint))
    slots = local_experts(spec, placement, group.rank, group.size)
    with TensorSource(tensor_files(checkpoint), device, dtype) as source:
        return tuple(
            read_experts(source, spec, f"model.layers.{layer}", local)
            for layer, local in zip(_moe_layers(spec), slots, strict=True)
        )


def local_experts(
    spec: ModelSpec, placement: Placement | None, rank: int, ranks: int
) -> tuple[tuple[int, ...], ...]:
    """The logical experts in this rank's slots, for each MoE layer.

    Raises:
        CheckpointError: the slots cannot be shared evenly over the ranks.
    """
    if placement is None:
        placement = np.tile(np.arange(spec.moe.num_experts), (spec.num_moe_layers, 1))
    slots = placement.shape[1]
    if placement.shape[0] != spec.num_moe_layers or slots % ranks:
        raise CheckpointError(
            f"placement {list(placement.shape)} does not share {spec.num_moe_layers} MoE layers' "
            f"slots evenly over {ranks} ranks",
            field="placement", value=list(placement.shape), bound=ranks,
        )  # fmt: skip
    share = slots // ranks
    return tuple(tuple(row[rank * share : (rank + 1) * share].tolist()) for row in placement)


def read_facts(checkpoint: Path) -> CheckpointFacts:
    """The spec, the identity of the experts and the bias; reads routers only.

    Raises:
        CheckpointError: as `load_model`, for what is read.
    """
    spec = read_spec(read_config(checkpoint))
    stems = [f"model.layers.{index}" for index in _moe_layers(spec)]
    with TensorSource(tensor_files(checkpoint), torch.device("cpu"), torch.float32) as source:
        routers = [read_router(source, spec, stem) for stem in stems]
        biases = [bias for stem in stems if (bias := read_bias(source, spec, stem)) is not None]
    return CheckpointFacts(
        name=checkpoint.resolve().name,
        spec=spec,
        expert_set_hash=_expert_set_hash(spec, routers),
        bias=torch.stack(biases).numpy() if biases else None,
    )


def _moe_layers(spec: ModelSpec) -> list[int]:
    return [index for index, layer in enumerate(spec.layers) if layer.moe_index is not None]


def _read_layer(
    source: TensorSource,
    spec: ModelSpec,
    index: int,
    placement: Placement | None,
    group: ExpertGroup,
) -> DecoderLayer:
    stem = f"model.layers.{index}"
    dense, moe = None, None
    moe_index = spec.layers[index].moe_index
    if moe_index is None:
        dense = read_dense(source, spec, stem)
    else:
        # The served bias comes with each step's plan; here it is only accounted for.
        read_bias(source, spec, stem)
        slots = local_experts(spec, placement, group.rank, group.size)[moe_index]
        experts = read_experts(source, spec, stem, slots)
        row = None if placement is None else placement[moe_index].tolist()
        moe = MoELayer(moe_index, spec.moe, experts, group, row)
    return DecoderLayer(
        attention_norm=_norm(source, spec, f"{stem}.input_layernorm"),
        attention=read_attention(source, spec, index),
        feed_forward_norm=_norm(source, spec, f"{stem}.post_attention_layernorm"),
        dense=dense,
        moe=moe,
    )


def _norm(source: TensorSource, spec: ModelSpec, name: str) -> RMSNorm:
    weight = source.take(f"{name}.weight", spec.hidden)
    return RMSNorm(weight, width=spec.hidden, eps=spec.norm_eps, device=weight.device)


def _may_ignore(name: str, spec: ModelSpec) -> bool:
    """Extra prediction layers, tied heads and derived buffers do not touch the output."""
    layer = _LAYER.match(name)
    beyond = layer is not None and int(layer.group(1)) >= len(spec.layers)
    is_tied_head = spec.tied and name == "lm_head.weight"
    return beyond or is_tied_head or name.endswith("rotary_emb.inv_freq")


def _expert_set_hash(spec: ModelSpec, routers: list[Tensor]) -> str:
    """SHA-256 over the shape of the experts and every router's FP32 weight."""
    moe = spec.moe
    shape = [spec.family, len(routers), moe.num_experts, moe.top_k, moe.expert_width, spec.hidden]
    digest = hashlib.sha256(json.dumps(shape).encode())
    for router in routers:
        digest.update(router.contiguous().numpy().tobytes())
    return digest.hexdigest()
