import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.model.training.recipe import Recipe


def test_the_rate_warms_up_holds_and_falls_to_zero() -> None:
    recipe = Recipe(learning_rate=1.0, warmup_steps=10, decay_from=0.5)
    assert recipe.rate(0, 0.0) == pytest.approx(0.1)
    assert recipe.rate(20, 0.3) == 1.0
    assert recipe.rate(90, 0.75) == pytest.approx(0.5)
    assert recipe.rate(100, 1.0) == 0.0


@given(st.integers(0, 10_000), st.floats(0, 1))
def test_the_rate_never_leaves_its_bounds(step: int, progress: float) -> None:
    recipe = Recipe()
    assert 0.0 <= recipe.rate(step, progress) <= recipe.learning_rate


def test_the_bias_moves_slower_at_the_end() -> None:
    recipe = Recipe()
    assert recipe.update_speed(0.89) == recipe.bias_speed
    assert recipe.update_speed(0.9) == recipe.bias_speed_late
