"""The differentiable model that is trained. Self-contained: serving has its own, faster forward.

Parameter names are those of the Hugging Face `deepseek_v3` layout, experts packed.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from engine.model.training.shape import Shape

# Of DeepSeek-V3's latent norms, whatever rms_norm_eps says.
_LATENT_EPS = 1e-6


def _linear(rows: int, columns: int, gain: float = 1.0) -> nn.Linear:
    """A bias-free linear [columns → rows] with variance gain² ÷ columns."""
    layer = nn.Linear(columns, rows, bias=False)
    nn.init.normal_(layer.weight, std=gain / math.sqrt(columns))
    return layer


def rotary_angles(length: int, width: int, theta: float) -> tuple[Tensor, Tensor]:
    """Cosine and sine [length, width / 2] of interleaved rotary pairs."""
    frequencies = theta ** (-torch.arange(0, width, 2, dtype=torch.float32) / width)
    angles = torch.arange(length, dtype=torch.float32)[:, None] * frequencies
    return angles.cos(), angles.sin()


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.cat((even * cos - odd * sin, odd * cos + even * sin), dim=-1)


class Attention(nn.Module):
    """Multi-head latent attention over whole sequences, keys and values expanded."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        heads, qk = shape.num_attention_heads, shape.qk_nope_head_dim + shape.qk_rope_head_dim
        latent, width = shape.kv_lora_rank, shape.hidden_size
        depth_gain = 1 / math.sqrt(2 * shape.num_hidden_layers)
        self.q_proj = _linear(heads * qk, width)
        self.kv_a_proj_with_mqa = _linear(latent + shape.qk_rope_head_dim, width)
        self.kv_a_layernorm = nn.RMSNorm(latent, eps=_LATENT_EPS)
        self.kv_b_proj = _linear(heads * (shape.qk_nope_head_dim + shape.v_head_dim), latent)
        self.o_proj = _linear(width, heads * shape.v_head_dim, depth_gain)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Attend within x [B, T, d], causally."""
        shape, (batch, length, _) = self.shape, x.shape
        heads, nope, rope = (
            shape.num_attention_heads,
            shape.qk_nope_head_dim,
            shape.qk_rope_head_dim,
        )
        query = self.q_proj(x).view(batch, length, heads, nope + rope).transpose(1, 2)
        query_nope, query_rope = query.split((nope, rope), dim=-1)
        latent, key_rope = self.kv_a_proj_with_mqa(x).split((shape.kv_lora_rank, rope), dim=-1)
        expanded = self.kv_b_proj(self.kv_a_layernorm(latent))
        expanded = expanded.view(batch, length, heads, nope + shape.v_head_dim).transpose(1, 2)
        key_nope, value = expanded.split((nope, shape.v_head_dim), dim=-1)
        key_rope = _rotate(key_rope, cos, sin)[:, None].expand(-1, heads, -1, -1)
        query = torch.cat((query_nope, _rotate(query_rope, cos, sin)), dim=-1)
        key = torch.cat((key_nope, key_rope), dim=-1)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        out: Tensor = self.o_proj(mixed.transpose(1, 2).reshape(batch, length, -1))
        return out


class GatedMLP(nn.Module):
    """SwiGLU."""

    def __init__(self, width: int, inner: int, depth_gain: float) -> None:
        super().__init__()
        self.gate_proj = _linear(inner, width)
        self.up_proj = _linear(inner, width)
        self.down_proj = _linear(width, inner, depth_gain)

    def forward(self, x: Tensor) -> Tensor:
        """Map x [..., d] to [..., d]."""
        out: Tensor = self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))
        return out


class Gate(nn.Module):
    """The router's weight and its selection-only bias, both FP32."""

    e_score_correction_bias: Tensor

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.weight = _linear(shape.n_routed_experts, shape.hidden_size).weight
        self.register_buffer("e_score_correction_bias", torch.zeros(shape.n_routed_experts))


class Experts(nn.Module):
    """Packed routed experts, stored transposed for the grouped product."""

    def __init__(self, shape: Shape, depth_gain: float) -> None:
        super().__init__()
        experts, width, inner = (
            shape.n_routed_experts, shape.hidden_size, shape.moe_intermediate_size,
        )  # fmt: skip
        self.gate_up = nn.Parameter(torch.randn(experts, width, 2 * inner) / math.sqrt(width))
        self.down = nn.Parameter(
            torch.randn(experts, inner, width) * (depth_gain / math.sqrt(inner))
        )

    def forward(self, x: Tensor, ends: Tensor) -> Tensor:
        """Map rows x [N, d] sorted by expert; ends int32 [E] is the prefix sum of loads."""
        gate, up = functional.grouped_mm(x, self.gate_up, offs=ends).chunk(2, dim=-1)
        return functional.grouped_mm(functional.silu(gate) * up, self.down, offs=ends)


class MoE(nn.Module):
    """Sigmoid gate, bias for selection only, top-k of the experts, one shared expert."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        depth_gain = 1 / math.sqrt(2 * shape.num_hidden_layers)
        self.gate = Gate(shape)
        # The k weights sum to the routed scale: the spread of their sum is scale / √k.
        self.experts = Experts(shape, depth_gain)
        inner = shape.moe_intermediate_size * shape.n_shared_experts
        self.shared_experts = GatedMLP(shape.hidden_size, inner, depth_gain)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Map x [N, d]; also the load of each expert, float [E]."""
        k, experts = self.shape.num_experts_per_tok, self.shape.n_routed_experts
        scores = functional.linear(x, self.gate.weight).sigmoid()
        chosen = (scores + self.gate.e_score_correction_bias).topk(k, dim=-1, sorted=False).indices
        weights = scores.gather(1, chosen)
        weights = weights * (self.shape.routed_scaling_factor / (weights.sum(-1, keepdim=True)))
        flat = chosen.flatten()
        order = flat.argsort(stable=True)
        load = flat.bincount(minlength=experts)
        ends = load.cumsum(0).to(torch.int32)
        rows = x.index_select(0, order // k)
        computed = self.experts(rows, ends)
        inverse = torch.empty_like(order).scatter_(0, order, torch.arange(order.numel()))
        per_token = computed.index_select(0, inverse).view(x.shape[0], k, -1)
        routed = torch.bmm(weights[:, None, :], per_token).squeeze(1)
        return routed + self.shared_experts(x), load.float()


class Layer(nn.Module):
    """Pre-norm attention and feed-forward, each with a residual."""

    def __init__(self, shape: Shape, index: int) -> None:
        super().__init__()
        self.input_layernorm = nn.RMSNorm(shape.hidden_size, eps=shape.rms_norm_eps)
        self.self_attn = Attention(shape)
        self.post_attention_layernorm = nn.RMSNorm(shape.hidden_size, eps=shape.rms_norm_eps)
        depth_gain = 1 / math.sqrt(2 * shape.num_hidden_layers)
        self.mlp: MoE | GatedMLP
        if index < shape.first_k_dense_replace:
            self.mlp = GatedMLP(shape.hidden_size, shape.intermediate_size, depth_gain)
        else:
            self.mlp = MoE(shape)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor | None]:
        """Map x [B, T, d]; the load [E] too where the layer routes."""
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        normed = self.post_attention_layernorm(x)
        if isinstance(self.mlp, MoE):
            out, load = self.mlp(normed.flatten(0, 1))
            return x + out.view_as(x), load
        return x + self.mlp(normed), None


class Network(nn.Module):
    """The whole model."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.embed_tokens = nn.Embedding(shape.vocab_size, shape.hidden_size)
        nn.init.normal_(self.embed_tokens.weight, std=0.5)
        self.layers = nn.ModuleList(Layer(shape, i) for i in range(shape.num_hidden_layers))
        self.norm = nn.RMSNorm(shape.hidden_size, eps=shape.rms_norm_eps)
        self.lm_head = _linear(shape.vocab_size, shape.hidden_size, 0.5)

    def forward(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Logits [B, T, V] of tokens [B, T], and loads float [MoE layers, E]."""
        cos, sin = rotary_angles(
            tokens.shape[1], self.shape.qk_rope_head_dim, self.shape.rope_theta
        )
        x = self.embed_tokens(tokens)
        loads = []
        for layer in self.layers:
            x, load = layer(x, cos, sin)
            if load is not None:
                loads.append(load)
        return self.lm_head(self.norm(x)), torch.stack(loads)

    def gates(self) -> list[Gate]:
        """The gate of each MoE layer, in order."""
        return [module for module in self.modules() if isinstance(module, Gate)]
