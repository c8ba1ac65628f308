"""Capacity is exact."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.moe.capacity import LADDER, ladder_slots, overflow, slots


@pytest.mark.parametrize(
    ("factor", "tokens", "top_k", "experts", "cap_min", "expected"),
    [
        ("1.1", 160, 1, 16, 1, 11),  # a float product gives 11.000000000000002 and so 12
        ("1.25", 64, 8, 128, 1, 5),
        ("1.5", 64, 8, 256, 1, 3),
        ("1.25", 64, 8, 128, 8, 8),
        ("1", 0, 8, 128, 8, 8),
        ("2", 16384, 8, 256, 1, 1024),
    ],
)
def test_slots(factor, tokens, top_k, experts, cap_min, expected):
    assert expected == slots(
        Fraction(factor), tokens=tokens, top_k=top_k, num_experts=experts, cap_min=cap_min
    )


@given(st.integers(0, 10**6), st.integers(1, 16), st.integers(1, 512), st.integers(1, 64))
def test_slots_are_the_least_that_hold_the_factor_and_grow_with_it(tokens, top_k, experts, least):
    ladder = ladder_slots(tokens=tokens, top_k=top_k, num_experts=experts, cap_min=least)
    assert list(ladder) == sorted(ladder)
    for rung, cap in zip(LADDER, ladder, strict=True):
        wanted = rung * tokens * top_k / experts
        assert cap >= wanted
        assert cap == least or cap - 1 < wanted


def test_overflow_counts_what_is_beyond():
    assert overflow([0, 3, 5, 9], 4) == 6
