"""Whether the dispatch buffers of a capacity factor fit the memory that is free. Pure."""

from dataclasses import dataclass

from contract.runtime_config import OverflowMode, RuntimeConfig
from engine.errors import RefusedError
from engine.moe.capacity import slots
from engine.moe.spec import MoESpec


@dataclass(frozen=True, slots=True)
class BufferShape:
    """What the size of a rank's expert buffers depends on, beside the config.

    Attributes:
        moe: shape of the MoE layers.
        ranks: M.
        element_bytes: of the model's dtype.
    """

    moe: MoESpec
    ranks: int
    element_bytes: int


def dispatch_buffer_bytes(shape: BufferShape, config: RuntimeConfig) -> int:
    """Bytes of one rank's expert buffers in the largest step that `chunk_size` allows.

    m · cap rows of (2d + 2f) elements in the experts and d more on their way out, m = E/M experts a
    rank; without an enforced capacity every assignment of a step may come to one rank.
    """
    moe = shape.moe
    experts_here = -(-moe.num_experts // shape.ranks)
    most = config.chunk_size * min(moe.top_k, experts_here)
    factor = config.capacity_fraction
    rows = most
    if factor is not None and config.overflow_mode is OverflowMode.ENFORCED:
        cap = slots(
            factor, tokens=config.chunk_size, top_k=moe.top_k, num_experts=moe.num_experts,
            cap_min=config.cap_min,
        )  # fmt: skip
        rows = experts_here * cap
    return rows * (3 * moe.hidden + 2 * moe.expert_width) * shape.element_bytes


def check_memory(shape: BufferShape, config: RuntimeConfig, free_bytes: int) -> None:
    """Refuse a config whose dispatch buffers do not fit.

    Args:
        shape: sizes of the served model.
        config: the wanted config.
        free_bytes: the least that any rank has free.

    Raises:
        RefusedError: with the knob, what it needs and what there is.
    """
    needed = dispatch_buffer_bytes(shape, config)
    if needed > free_bytes:
        factor = config.capacity_factor or "null (dropless)"
        raise RefusedError(
            f"capacity_factor {factor} with cap_min {config.cap_min} and chunk_size "
            f"{config.chunk_size} needs {needed} bytes of dispatch buffers on a rank, "
            f"{free_bytes} are free",
            field="capacity_factor", value=config.capacity_factor, bound=free_bytes,
        )  # fmt: skip
