"""Selection under a bias: rows sum to k, and biases act as computed for a sigmoid gate."""

import numpy as np
import pytest

from engine.simulation.routing.popularity import popularity
from engine.simulation.routing.router import BiasedRouter

ONE = np.array([1.0])


def even_router(experts, top_k=8):
    selection = np.full((1, 1, experts), top_k / experts)
    return BiasedRouter.from_selection(selection, np.zeros((1, experts)), top_k)


def cv(selection):
    return selection.std() / selection.mean()


def test_the_bias_it_was_made_with_gives_its_selection_back():
    rng = np.random.default_rng(1)
    wanted = popularity(rng, 3, 64, 8, 0.5)
    bias = 4.0 + rng.normal(0, 0.02, (3, 64))
    router = BiasedRouter.from_selection(wanted, bias, 8)
    found = router.selection(bias, np.array([1.0, 0, 0]))
    assert found == pytest.approx(wanted[0], rel=1e-3)


def test_every_row_sums_to_k_under_any_bias_and_mix():
    rng = np.random.default_rng(2)
    router = BiasedRouter.from_selection(popularity(rng, 2, 128, 8, 0.3), np.zeros((2, 128)), 8)
    for scale in (0.0, 0.05, 0.3):
        found = router.selection(rng.normal(0, scale, (2, 128)), np.array([0.2, 0.5, 0.3]))
        assert found.sum(axis=1) == pytest.approx([8, 8])
        assert (found >= 0).all()


@pytest.mark.parametrize(("experts", "small", "large"), [(128, 0.056, 0.242), (256, 0.038, 0.161)])
def test_relative_biases_act_as_computed_for_a_sigmoid_gate(experts, small, large):
    """CV 0.3 and 70 % of the assignments on 16 % of the experts (mechanisms § 4.9)."""
    hot = round(0.16 * experts)
    bias = np.zeros((1, experts))
    bias[0, :hot] = small
    assert cv(even_router(experts).selection(bias, ONE)) == pytest.approx(0.3, abs=0.06)
    bias[0, :hot] = large
    found = even_router(experts).selection(bias, ONE)
    assert found[0, :hot].sum() / 8 == pytest.approx(0.70, abs=0.04)


def test_a_constant_bias_changes_nothing():
    router = even_router(128)
    assert router.selection(np.full((1, 128), 0.5), ONE) == pytest.approx(8 / 128)


def test_a_warm_threshold_gives_what_a_cold_one_gives():
    rng = np.random.default_rng(4)
    selection = popularity(rng, 2, 64, 4, 0.4)
    warm = BiasedRouter.from_selection(selection, np.zeros((2, 64)), 4)
    mix = np.array([0.5, 0.5, 0.0])
    for step in range(5):
        bias = step * 0.01 * np.sign(rng.standard_normal((2, 64)))
        cold = BiasedRouter(warm.means, 4)
        assert warm.selection(bias, mix) == pytest.approx(cold.selection(bias, mix), abs=1e-4)
