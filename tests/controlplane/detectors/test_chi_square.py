import numpy as np
import pytest

from controlplane.detectors import chi_square
from controlplane.detectors.load_change import change_level
from controlplane.detectors.settings import DetectorSettings

LAYERS, EXPERTS = 58, 256
WINDOWS_A_DAY = 8640


def alarms(days: float, seed: int) -> int:
    """Alarms of the change detector on χ² of an unchanging router, 10 s windows.

    An alarm lasts until the level is back at zero. The effect gate is left out: it would hide them.
    """
    settings, random = DetectorSettings(), np.random.default_rng(seed)
    level, alarmed, count = np.zeros(LAYERS), np.zeros(LAYERS, dtype=bool), 0
    for _ in range(int(days * 24)):
        chi = random.chisquare(EXPERTS - 1, size=(WINDOWS_A_DAY // 24, LAYERS))
        for score in chi_square.normal_score(chi, EXPERTS - 1):
            level = np.clip(level + score - settings.cusum_kappa, 0.0, 2 * settings.cusum_h)
            firing = level > settings.cusum_h
            count += int((firing & ~alarmed).sum())
            alarmed = (alarmed | firing) & (level > 0)
    return count


def test_three_quiet_days_of_58_layers_raise_no_alarm():
    assert alarms(3, seed=11) == 0


@pytest.mark.slow
def test_quiet_months_of_58_layers_raise_at_most_two_alarms_each():
    assert sum(alarms(30, seed) for seed in range(4)) <= 4 * 2


def test_the_level_of_the_tests_recursion_is_that_of_the_detector():
    settings = DetectorSettings()
    scores = np.random.default_rng(2).standard_normal((40, 3)) + 0.8
    level = np.zeros(3)
    for score in scores:
        level = np.clip(level + score - settings.cusum_kappa, 0.0, 2 * settings.cusum_h)
    np.testing.assert_allclose(change_level(scores, settings), level)


def test_a_three_sigma_shift_is_found_within_six_windows():
    scores = np.random.default_rng(4).standard_normal((6, 200)) + 3.0
    assert (change_level(scores, DetectorSettings()) > 7.5).mean() > 0.9


def test_scores_of_top_k_draws_without_replacement_are_standard_normal():
    random = np.random.default_rng(7)
    experts, top_k, tokens = 64, 8, 1000
    shares = np.full((1, experts), 1.0 / experts)
    draws = np.stack(
        [
            np.bincount(
                np.argpartition(random.random((tokens, experts)), top_k, axis=1)[:, :top_k].ravel(),
                minlength=experts,
            )
            for _ in range(150)
        ]
    )[:, None, :].astype(float)
    chi = chi_square.pearson(draws, shares, top_k=top_k, reference_total=np.array([1e12]))
    scores = chi_square.normal_score(chi, experts - 1)
    assert abs(scores.mean()) < 0.25
    assert 0.8 < scores.std() < 1.2


def test_the_design_effect_of_independent_tokens_is_one_and_grows_with_correlation():
    random = np.random.default_rng(8)
    alone = random.multinomial(4000, np.full(64, 1 / 64), size=(8, 1)).astype(float)
    tilted = np.stack(
        [random.multinomial(4000, random.dirichlet(np.full(64, 20.0)), size=1) for _ in range(8)]
    ).astype(float)
    assert chi_square.design_effect(alone, 1)[0] == pytest.approx(1.0, abs=0.15)
    assert chi_square.design_effect(tilted, 1)[0] > 2.0


def test_the_stability_index_has_no_floor_left_without_a_change():
    random = np.random.default_rng(9)
    shares = random.dirichlet(np.full(128, 30.0))[None, :]
    values = [
        chi_square.stability_index(
            random.multinomial(20_000, shares[0]).astype(float)[None, :], shares,
            reference_total=np.array([1e9]), effect=np.ones(1),
        )[0][0]
        for _ in range(50)
    ]  # fmt: skip
    assert abs(float(np.mean(values))) < 5e-4
