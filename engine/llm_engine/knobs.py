"""Which configs this engine refuses. Pure."""

from contract.runtime_config import BiasUpdate, OverflowPolicy, RuntimeConfig
from engine.errors import RefusedError
from engine.llm_engine.memory_guard import BufferShape, check_memory
from engine.worker.placed_experts import LINEAR

_NO_SPILL = "spill needs replicas of experts, the linear placement has none"


def check_knobs(
    config: RuntimeConfig, shape: BufferShape, *, has_bias: bool, free_bytes: int
) -> None:
    """Refuse a config that this engine cannot run.

    Args:
        config: the wanted config.
        shape: sizes of the served model.
        has_bias: whether the model has a router bias.
        free_bytes: the least that any rank has free.

    Raises:
        RefusedError: naming the knob, its value and the bound.
    """
    is_linear = config.placement == LINEAR
    if is_linear and config.overflow_policy is OverflowPolicy.SPILL:
        raise RefusedError(
            f"overflow_policy spill cannot become live: {_NO_SPILL}",
            field="overflow_policy", value=config.overflow_policy.value, bound="another policy",
        )  # fmt: skip
    if not has_bias and config.bias_update is BiasUpdate.ON:
        raise RefusedError(
            "bias_update on needs a router bias, the model has none",
            field="bias_update", value="on", bound="off",
        )  # fmt: skip
    check_memory(shape, config, free_bytes)
