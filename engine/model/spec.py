"""One description of a model, whatever family its checkpoint belongs to."""

from dataclasses import dataclass
from enum import StrEnum

from engine.moe.spec import MoESpec


class RopeType(StrEnum):
    """How rotary frequencies are stretched."""

    DEFAULT = "default"
    LLAMA3 = "llama3"
    YARN = "yarn"


@dataclass(frozen=True, slots=True)
class RotarySpec:
    """Rotary embedding of the last `width` channels of queries and keys.

    Attributes:
        width: rotated channels of a head.
        theta: base of the frequencies.
        interleaved: pairs are (0, 1), (2, 3), ... rather than (0, width/2), (1, width/2 + 1), ...
        rope_type: stretching; the fields below are its parameters.
        factor: how much longer than the original context.
        original_context: context before stretching, tokens.
        low_freq_factor, high_freq_factor: of llama3.
        beta_fast, beta_slow, truncate: of yarn.
        attention_factor: multiplies cosine and sine.
    """

    width: int
    theta: float
    interleaved: bool = False
    rope_type: RopeType = RopeType.DEFAULT
    factor: float = 1.0
    original_context: int = 0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    truncate: bool = True
    attention_factor: float = 1.0


class QKNorm(StrEnum):
    """Normalisation of queries and keys."""

    NONE = "none"
    HEAD = "head"
    """RMS norm with weight over each head's channels, before rotation (Qwen3)."""
    FULL = "full"
    """RMS norm with weight over all heads' channels, before rotation (OLMoE)."""
    AFTER_ROTARY = "after_rotary"
    """RMS norm without weight over each head's channels, after rotation (Llama-4)."""


@dataclass(frozen=True, slots=True)
class GQASpec:
    """Grouped-query attention.

    Attributes:
        heads, kv_heads, head_dim: sizes.
        bias: q, k, v and o projections have a bias.
        qk_norm: normalisation of queries and keys.
        clip: q, k, v are clamped to ±clip, None for not at all.
        window: a token sees this many tokens back, itself included; None for all.
    """

    heads: int
    kv_heads: int
    head_dim: int
    bias: bool = False
    qk_norm: QKNorm = QKNorm.NONE
    clip: float | None = None
    window: int | None = None


@dataclass(frozen=True, slots=True)
class MLASpec:
    """Multi-head latent attention (DeepSeek-V2/V3).

    Attributes:
        heads: query heads.
        q_lora_rank: width of the compressed query; None projects it directly.
        kv_lora_rank: width of the cached latent.
        nope_dim, rope_dim, value_dim: channels of a head.
        bias: the down-projections and the output projection have a bias.
        softmax_scale: multiplies the scores (yarn changes it).
    """

    heads: int
    q_lora_rank: int | None
    kv_lora_rank: int
    nope_dim: int
    rope_dim: int
    value_dim: int
    bias: bool
    softmax_scale: float


AttentionSpec = GQASpec | MLASpec


@dataclass(frozen=True, slots=True)
class LayerSpec:
    """What may differ from layer to layer.

    Attributes:
        moe_index: place among the MoE layers, None for a dense layer.
        rotary: False for a layer without positions (NoPE).
        chunk: attention stays inside chunks of this many positions (Llama-4); None for all.
    """

    moe_index: int | None
    rotary: bool = True
    chunk: int | None = None


@dataclass(frozen=True, slots=True)
class TemperatureTuning:
    """Query scaling of layers without positions: log(⌊(p + 1) / floor⌋ + 1) · scale + 1."""

    floor_scale: float
    scale: float


@dataclass(frozen=True, slots=True)
class TensorNames:
    """Where a family keeps the tensors of a feed-forward block, relative to its layer.

    Attributes:
        dense: (gate, up, down) of a dense layer.
        router: router weight; `bias` its selection bias, None for none.
        expert: pattern of (gate, up, down) of expert `{}`.
        packed: (gate_up, down) of all experts in one tensor each; None where never packed.
        packed_input_first: packed tensors are [E, d, 2w] and [E, w, d], not their transposes.
        shared: (gate, up, down) of the shared expert, None for none.
    """

    dense: tuple[str, str, str]
    router: str
    bias: str | None
    expert: tuple[str, str, str]
    packed: tuple[str, str] | None
    packed_input_first: bool
    shared: tuple[str, str, str] | None


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """Everything the decoder needs to know that is not a tensor.

    Attributes:
        family: `model_type` of the config.
        vocabulary, hidden, context: sizes; context in tokens.
        inner: width of a dense layer's feed-forward.
        norm_eps: of the RMS norms; `qk_norm_eps` of those inside attention.
        tied: the output projection is the embedding.
        attention, rotary, layers, moe, names: the parts.
        shared_inner: width of the shared expert, 0 for none.
        temperature_tuning: of layers without positions, None for none.
        eos_token_ids: output that ends a sequence.
    """

    family: str
    vocabulary: int
    hidden: int
    context: int
    inner: int
    norm_eps: float
    qk_norm_eps: float
    tied: bool
    attention: AttentionSpec
    rotary: RotarySpec
    layers: tuple[LayerSpec, ...]
    moe: MoESpec
    shared_inner: int
    names: TensorNames
    temperature_tuning: TemperatureTuning | None = None
    eos_token_ids: tuple[int, ...] = ()

    @property
    def num_moe_layers(self) -> int:
        """Layers with routed experts."""
        return sum(layer.moe_index is not None for layer in self.layers)
