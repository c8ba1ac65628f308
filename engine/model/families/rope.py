"""The `rope_parameters` (or older `rope_theta` and `rope_scaling`) of a config."""

import math
from typing import Any

from engine.errors import CheckpointError
from engine.model.families.fields import Fields
from engine.model.spec import RopeType, RotarySpec

_KNOWN = {
    RopeType.DEFAULT: frozenset[str](),
    RopeType.LLAMA3: frozenset({
        "factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings",
    }),
    RopeType.YARN: frozenset({
        "factor", "original_max_position_embeddings", "attention_factor", "beta_fast", "beta_slow",
        "mscale", "mscale_all_dim", "truncate",
    }),
}  # fmt: skip


def read_parameters(fields: Fields, default_theta: float) -> dict[str, Any]:
    """Rotary parameters in one dictionary, whichever way the config spells them."""
    theta = fields.get("rope_theta", None)
    scaling = fields.get("rope_scaling", None) or {}
    parameters = dict(fields.get("rope_parameters", None) or scaling)
    parameters["rope_type"] = parameters.pop("type", parameters.get("rope_type", "default"))
    parameters.setdefault("rope_theta", default_theta if theta is None else theta)
    return parameters


def rotary_spec(
    parameters: dict[str, Any], *, width: int, interleaved: bool, context: int
) -> RotarySpec:
    """The rotation of `width` channels; an unknown type or parameter is an error."""
    if width % 2:
        raise CheckpointError(
            f"heads have {width} rotary channels; rotation needs pairs",
            field="head_dim", value=width, bound=2,
        )  # fmt: skip
    kinds = [kind.value for kind in RopeType]
    if parameters["rope_type"] not in kinds:
        raise CheckpointError(
            f"rope_type {parameters['rope_type']!r} is not served; known: {', '.join(kinds)}",
            field="rope_parameters.rope_type", value=parameters["rope_type"], bound=kinds,
        )  # fmt: skip
    kind = RopeType(parameters["rope_type"])
    given = {name: value for name, value in parameters.items() if value is not None}
    for name in given.keys() - {"rope_type", "rope_theta"} - _KNOWN[kind]:
        raise CheckpointError(
            f"rope parameter {name} ({given[name]!r}) is not honoured for rope_type {kind}",
            field=f"rope_parameters.{name}", value=given[name],
        )  # fmt: skip
    original = int(given.get("original_max_position_embeddings", context))
    factor = float(given.get("factor", context / original))
    return RotarySpec(
        width=width,
        theta=float(given["rope_theta"]),
        interleaved=interleaved,
        rope_type=kind,
        factor=factor,
        original_context=original,
        low_freq_factor=float(given.get("low_freq_factor", 1.0)),
        high_freq_factor=float(given.get("high_freq_factor", 4.0)),
        beta_fast=float(given.get("beta_fast", 32.0)),
        beta_slow=float(given.get("beta_slow", 1.0)),
        truncate=bool(given.get("truncate", True)),
        attention_factor=_attention_factor(kind, given, factor),
    )


def yarn_mscale(factor: float, mscale: float) -> float:
    """YaRN's temperature: 0.1 · mscale · ln(factor) + 1, and 1 where nothing is stretched."""
    return 1.0 if factor <= 1 else 0.1 * mscale * math.log(factor) + 1.0


def _attention_factor(kind: RopeType, given: dict[str, Any], factor: float) -> float:
    if kind is not RopeType.YARN:
        return 1.0
    if "attention_factor" in given:
        return float(given["attention_factor"])
    mscale, all_dim = given.get("mscale"), given.get("mscale_all_dim")
    if mscale and all_dim:
        return yarn_mscale(factor, mscale) / yarn_mscale(factor, all_dim)
    return yarn_mscale(factor, 1.0)
