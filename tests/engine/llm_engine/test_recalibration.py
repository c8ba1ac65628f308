import numpy as np
import pytest

from engine.errors import RefusedError
from engine.llm_engine.recalibration import in_own_thread, recalibrate_from_scores
from engine.moe.spec import MoESpec, RouterKind

MOE = MoESpec(hidden=8, expert_width=4, num_experts=8, top_k=2, router=RouterKind.SIGMOID_BIAS)


async def recalibrate(bias, ranks):
    return await in_own_thread(
        lambda: recalibrate_from_scores(
            bias, ranks, MOE, target_cv=0.1, max_iterations=400, update_speed=5e-3
        ),
        name="test",
    )


async def test_the_load_of_all_ranks_together_is_levelled():
    random = np.random.default_rng(0)
    ranks = [(random.random((400, 8)).astype(np.float32),) for _ in range(2)]
    skewed = np.zeros((1, 8), np.float32)
    skewed[0, 0] = 0.5
    found = await recalibrate(skewed, ranks)
    assert found.converged
    assert found.cv_before[0] > 0.3 > 0.1 > found.cv_after[0]
    assert skewed[0, 0] == 0.5, "the given bias is not changed"


async def test_without_samples_it_refuses():
    with pytest.raises(RefusedError, match="no step was sampled yet"):
        await recalibrate(np.zeros((1, 8), np.float32), [(), ()])
