"""What the grouped-query families share in their configs."""

from dataclasses import dataclass

from engine.model.families.fields import Fields
from engine.model.spec import GQASpec, QKNorm


@dataclass(frozen=True, slots=True)
class Sizes:
    """Fields of the same name and meaning in every grouped-query family."""

    vocabulary: int
    hidden: int
    context: int
    layers: int
    norm_eps: float
    tied: bool


def read_sizes(fields: Fields, *, context: int, norm_eps: float) -> Sizes:
    """Read them; the arguments are the family's defaults."""
    fields.must_be("hidden_act", "silu")
    fields.must_be("quantization_config", None)
    return Sizes(
        vocabulary=fields.whole("vocab_size"),
        hidden=fields.whole("hidden_size"),
        context=fields.whole("max_position_embeddings", default=context),
        layers=fields.whole("num_hidden_layers"),
        norm_eps=fields.number("rms_norm_eps", norm_eps),
        tied=fields.flag("tie_word_embeddings", default=False),
    )


def read_attention(
    fields: Fields, hidden: int, *, qk_norm: QKNorm = QKNorm.NONE,
    clip: float | None = None, window: int | None = None,
) -> GQASpec:  # fmt: skip
    """Heads and their width; without `head_dim` the heads share the hidden size."""
    heads = fields.whole("num_attention_heads")
    return GQASpec(
        heads=heads,
        kv_heads=fields.whole("num_key_value_heads", default=heads),
        head_dim=fields.whole("head_dim", default=hidden // heads),
        bias=fields.flag("attention_bias", default=False),
        qk_norm=qk_norm,
        clip=clip,
        window=window,
    )
