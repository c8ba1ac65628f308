"""The closed form of overflow against per-step draws, to half a point."""

import numpy as np
import pytest

from engine.moe.capacity import LADDER
from engine.simulation.routing.overflow import step_overflow
from engine.simulation.routing.popularity import capped_selection


def lognormal(rng, experts, top_k, cv):
    sigma = np.sqrt(np.log1p(cv * cv))
    return capped_selection(np.exp(sigma * rng.standard_normal((1, experts))), top_k)


def drawn_counts(rng, selection, tokens, top_k, steps):
    """Per-step counts [steps, E]: top-k without replacement by Gumbel keys."""
    experts = selection.shape[1]
    odds = np.log(selection[0] / (1 - selection[0]))
    keys = odds + rng.gumbel(size=(steps * tokens, experts)).astype(np.float32)
    chosen = np.argpartition(-keys, top_k, axis=1)[:, :top_k].reshape(steps, -1)
    return np.stack([np.bincount(row, minlength=experts) for row in chosen])


@pytest.mark.parametrize("cv", [0.0, 0.85])
@pytest.mark.parametrize(
    ("tokens", "experts", "steps"), [(64, 128, 200), (256, 256, 60), (1024, 64, 40)]
)
def test_closed_form_is_within_half_a_point_of_per_step_draws(tokens, experts, steps, cv):
    rng = np.random.default_rng(tokens + experts)
    counts = drawn_counts(rng, lognormal(rng, experts, 8, cv), tokens, 8, steps)
    real = counts.sum(axis=0)[None] / (steps * tokens)
    found = step_overflow(real, tokens=tokens, sequences=tokens, top_k=8, cap_min=1)
    for index in (0, 2, 5):
        capacity = int(np.ceil(float(LADDER[index]) * tokens * 8 / experts))
        drawn = np.maximum(0, counts - capacity).sum() / counts.sum()
        closed = found.at_rung[index, 0] / (tokens * 8)
        assert closed == pytest.approx(drawn, abs=0.005), str(LADDER[index])


@pytest.mark.parametrize(("cv", "expected"), [(0.0, 4.9), (0.3, 12.9), (0.5, 19.5)])
def test_overflow_at_c_1_is_that_of_the_published_simulation(cv, expected):
    rng = np.random.default_rng(3)
    selection = np.concatenate([lognormal(rng, 128, 8, cv) for _ in range(40)])
    found = step_overflow(selection, tokens=1024, sequences=1024, top_k=8, cap_min=1)
    assert found.at_rung[0].mean() / (1024 * 8) * 100 == pytest.approx(expected, abs=1.0)


def test_few_sequences_overflow_more():
    selection = np.full((1, 256), 8 / 256)
    many = step_overflow(selection, tokens=4096, sequences=4096, top_k=8, cap_min=1)
    few = step_overflow(selection, tokens=4096, sequences=8, top_k=8, cap_min=1)
    assert few.at_rung[2, 0] > 10 * many.at_rung[2, 0]


def test_sequence_spread_gives_the_published_noise():
    """CV 0.259 at 8 × 512 tokens, from which E[max(0, n - λ)] = 0.4·CV of the load."""
    selection = np.full((1, 256), 8 / 256)
    found = step_overflow(selection, tokens=4096, sequences=8, top_k=8, cap_min=1)
    assert found.at_rung[0, 0] / (4096 * 8) == pytest.approx(0.259 / np.sqrt(2 * np.pi), abs=0.005)


def test_overflow_never_grows_with_c():
    rng = np.random.default_rng(0)
    found = step_overflow(
        lognormal(rng, 128, 8, 0.5), tokens=512, sequences=100, top_k=8, cap_min=8
    )
    assert (np.diff(found.at_rung, axis=0) <= 1e-9).all()
    assert (np.diff(found.capacity) >= 0).all()
