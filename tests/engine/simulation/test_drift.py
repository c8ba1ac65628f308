"""A regulator in expectation: right sign evens out, wrong sign runs away, a clamp holds."""

import numpy as np
import pytest

from engine.simulation.conditions import Regulator
from engine.simulation.drift import regulated

EVEN = np.full((1, 4), 0.5)
SKEWED = np.array([[0.9, 0.5, 0.4, 0.2]])
GOOD = np.zeros((1, 4), np.float32)


def moved(selection, tokens=1e6, **rule):
    return regulated(GOOD, GOOD, selection, tokens, Regulator(**rule), 2)


def test_the_right_sign_lowers_what_is_hot_and_the_wrong_one_raises_it():
    right, wrong = moved(SKEWED, sign=1), moved(SKEWED, sign=-1)
    assert right[0, 0] < 0 < right[0, 3]
    assert np.allclose(right, -wrong)


def test_an_even_load_is_left_alone():
    assert np.abs(moved(EVEN, sign=1)).max() == pytest.approx(0, abs=1e-6)


def test_a_clear_skew_moves_by_the_speed_once_an_update():
    updates = 1e6 / 2048
    assert moved(SKEWED, sign=-1, speed=1e-3)[0, 0] == pytest.approx(1e-3 * updates, rel=1e-3)


def test_twice_the_tokens_move_twice_as_far():
    once, twice = (moved(SKEWED, tokens=tokens, sign=-1) for tokens in (1e5, 2e5))
    assert np.allclose(twice, 2 * once)


def test_few_tokens_an_update_leave_the_sign_to_luck():
    """A small skew is not seen in few tokens: the expected move is far below the speed."""
    nearly = np.array([[0.51, 0.5, 0.5, 0.49]])
    few = moved(nearly, tokens=64 * 1000, sign=-1, update_tokens=64)[0, 0] / 1000
    many = moved(nearly, tokens=1e6 * 1000, sign=-1, update_tokens=1_000_000)[0, 0] / 1000
    assert few < 0.3 * many


def test_a_clamp_bounds_the_distance_to_the_last_known_good():
    assert np.abs(moved(SKEWED, sign=-1, clamp=0.05)).max() == pytest.approx(0.05)
