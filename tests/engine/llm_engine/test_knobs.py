import pytest

from contract.runtime_config import BiasUpdate, OverflowPolicy, RuntimeConfig
from engine.errors import RefusedError
from engine.llm_engine.knobs import check_knobs
from engine.llm_engine.memory_guard import BufferShape
from engine.moe.spec import MoESpec, RouterKind

MOE = MoESpec(hidden=96, expert_width=16, num_experts=128, top_k=8, router=RouterKind.SIGMOID_BIAS)
SHAPE = BufferShape(MOE, ranks=2, element_bytes=4)


def test_the_default_config_is_accepted():
    check_knobs(RuntimeConfig(), SHAPE, has_bias=True, free_bytes=1 << 30)


@pytest.mark.parametrize(
    ("config", "has_bias", "free_bytes", "field"),
    [
        (RuntimeConfig(overflow_policy=OverflowPolicy.SPILL), True, 1 << 30, "overflow_policy"),
        (RuntimeConfig(bias_update=BiasUpdate.ON), False, 1 << 30, "bias_update"),
        (RuntimeConfig(), True, 1000, "capacity_factor"),
    ],
)
def test_what_this_engine_cannot_run_is_refused_by_name(config, has_bias, free_bytes, field):
    with pytest.raises(RefusedError) as caught:
        check_knobs(config, SHAPE, has_bias=has_bias, free_bytes=free_bytes)
    assert caught.value.field == field
