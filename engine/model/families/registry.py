"""Which reader takes which `model_type`."""

from collections.abc import Callable
from typing import Any

from engine.errors import CheckpointError
from engine.model.families import deepseek_v3, llama4, mixtral, olmoe, qwen3_moe
from engine.model.families.fields import Fields
from engine.model.spec import ModelSpec

READERS: dict[str, Callable[[Fields], ModelSpec]] = {
    "deepseek_v3": deepseek_v3.read,
    "llama4_text": llama4.read,
    "mixtral": mixtral.read,
    "olmoe": olmoe.read,
    "qwen3_moe": qwen3_moe.read,
}


def read_spec(config: dict[str, Any]) -> ModelSpec:
    """The spec of a parsed config.json.

    Raises:
        CheckpointError: the family is unknown, or a field is missing, wrong or not honoured.
    """
    family = config.get("model_type")
    if family not in READERS:
        raise CheckpointError(
            f"model_type {family!r} is not served; known: {', '.join(sorted(READERS))}",
            field="model_type", value=family, bound=sorted(READERS),
        )  # fmt: skip
    fields = Fields(config)
    spec = READERS[family](fields)
    fields.finish()
    return spec
