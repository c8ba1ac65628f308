"""Tensor names that several families share, relative to a layer."""

from engine.model.spec import TensorNames


def projections(stem: str) -> tuple[str, str, str]:
    """(gate, up, down) weights under `stem`."""
    return (
        f"{stem}.gate_proj.weight", f"{stem}.up_proj.weight", f"{stem}.down_proj.weight",
    )  # fmt: skip


QWEN_STYLE = TensorNames(
    dense=projections("mlp"),
    router="mlp.gate.weight",
    bias=None,
    expert=projections("mlp.experts.{}"),
    packed=("mlp.experts.gate_up_proj", "mlp.experts.down_proj"),
    packed_input_first=False,
    shared=None,
)
"""Qwen3-MoE and OLMoE."""
