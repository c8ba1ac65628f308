"""The regulator levels load, on a leash; the opposite sign would not."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.moe.regulator import Regulator, RegulatorRule, updated_bias
from engine.moe.router import build_router
from engine.moe.skew import debiased_cv
from tests.engine.moe.plain import make_spec

EXPERTS, TOP_K = 32, 4


def load(bias, tokens=2048, seed=0):
    """Load of a router that likes low ids, under a bias [1, E]."""
    random = torch.Generator().manual_seed(seed)
    logits = torch.randn(tokens, EXPERTS, generator=random) - 0.02 * torch.arange(EXPERTS)
    router = build_router(make_spec(experts=EXPERTS, top_k=TOP_K))
    ids = router.choose(router.scores(logits), bias[0], TOP_K)
    return torch.bincount(ids.flatten(), minlength=EXPERTS).unsqueeze(0)


def test_the_right_sign_levels_load():
    rule = RegulatorRule(update_speed=5e-3, clamp=1.0)
    anchor = torch.zeros(1, EXPERTS)
    bias = anchor
    before = debiased_cv(load(bias).numpy(), TOP_K)[0]
    for step in range(60):
        bias = updated_bias(bias, anchor, load(bias, seed=step), rule)
    after = debiased_cv(load(bias, seed=99).numpy(), TOP_K)[0]
    assert before > 0.3
    assert after < 0.1


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**31), clamp=st.floats(3e-3, 0.2))
def test_change_has_zero_mean_and_stays_on_the_leash(seed, clamp):
    random = torch.Generator().manual_seed(seed)
    anchor = torch.randn(3, EXPERTS, generator=random)
    counts = torch.randint(0, 100, (3, EXPERTS), generator=random)
    rule = RegulatorRule(update_speed=1e-3, clamp=clamp)
    once = updated_bias(anchor, anchor, counts, rule)
    assert (once - anchor).mean(1).abs().max() < 1e-6
    bias = anchor
    for _ in range(300):
        bias = updated_bias(bias, anchor, counts, rule)
    assert (bias - anchor).abs().max() <= clamp + 1e-6


def test_busier_than_the_mean_goes_down_and_idle_goes_up():
    counts = torch.tensor([[9, 1, 5, 5]])
    anchor = torch.zeros(1, 4)
    assert updated_bias(anchor, anchor, counts, RegulatorRule(update_speed=0.01)).tolist() == [
        pytest.approx([-0.01, 0.01, 0, 0])
    ]


def test_an_update_waits_for_a_window_of_tokens():
    anchor = torch.zeros(1, 4)
    regulator = Regulator(anchor, RegulatorRule(update_speed=0.01, min_tokens=100))
    counts = torch.tensor([[9, 1, 5, 5]])
    assert regulator.observe(anchor, counts, 64) is None
    moved = regulator.observe(anchor, counts, 64)
    assert moved is not None
    assert anchor.abs().max() == 0
    assert regulator.observe(moved, counts, 64) is None
