import pytest

from contract.runtime_config import OverflowMode, RuntimeConfig
from engine.errors import RefusedError
from engine.llm_engine.memory_guard import BufferShape, check_memory, dispatch_buffer_bytes
from engine.moe.spec import MoESpec, RouterKind

MOE = MoESpec(hidden=96, expert_width=16, num_experts=128, top_k=8, router=RouterKind.SIGMOID_BIAS)
SHAPE = BufferShape(MOE, ranks=2, element_bytes=4)
ROW_BYTES = (3 * 96 + 2 * 16) * 4


def test_buffers_hold_every_slot_of_the_ranks_experts():
    config = RuntimeConfig(capacity_factor="2", chunk_size=512)
    assert dispatch_buffer_bytes(SHAPE, config) == 64 * 64 * ROW_BYTES


@pytest.mark.parametrize(
    "config",
    [
        RuntimeConfig(capacity_factor=None, chunk_size=512),
        RuntimeConfig(overflow_mode=OverflowMode.VIRTUAL, chunk_size=512),
    ],
)
def test_without_an_enforced_capacity_one_rank_may_get_every_assignment(config):
    assert dispatch_buffer_bytes(SHAPE, config) == 512 * 8 * ROW_BYTES


def test_a_factor_that_does_not_fit_is_refused_with_the_numbers():
    config = RuntimeConfig(capacity_factor="2", chunk_size=512)
    needed = dispatch_buffer_bytes(SHAPE, config)
    check_memory(SHAPE, config, needed)
    with pytest.raises(
        RefusedError, match=f"needs {needed} bytes .* {needed - 1} are free"
    ) as caught:
        check_memory(SHAPE, config, needed - 1)
    assert caught.value.field == "capacity_factor"
    assert caught.value.bound == needed - 1
