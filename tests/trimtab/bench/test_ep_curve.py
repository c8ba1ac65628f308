from engine.config import EngineConfig
from trimtab.bench.ep_curve import measure, predicted_seconds


async def test_a_point_is_measured_on_a_real_engine():
    figure = await measure(EngineConfig(ranks=1), 2, steps=4)
    assert figure.name == "ep_curve.step_ms.M1.S2"
    assert figure.n == 4
    assert figure.low is not None
    assert 0 < figure.low <= figure.value


def test_the_model_needs_longer_for_more_sequences():
    assert 0 < predicted_seconds(2, 8) < predicted_seconds(2, 512)
