"""All-to-all counts of chunked prefill."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.simulation.cost.chunking import Forwards, all_to_alls
from engine.simulation.cost.presets import preset


def test_chunking_always_takes_more_forwards_than_the_whole_prompt():
    counted = Forwards.of(32768, 64, 512)
    assert (counted.separate, counted.whole) == (128, 65)
    assert counted.separate / counted.whole - 1 == pytest.approx(0.97, abs=0.005)


@pytest.mark.parametrize(("prompt", "decode"), [(131072, 384), (196608, 256)])
def test_riding_along_saves_40_percent_exactly_at_two_to_three(prompt, decode):
    assert Forwards.of(prompt, decode, 512).saving == pytest.approx(0.4)


@given(st.integers(1, 1000), st.integers(1, 1000))
def test_the_saving_is_at_most_one_half(chunks, decode):
    saving = Forwards(chunks, decode).saving
    assert 0 < saving <= 0.5
    assert (saving == 0.5) == (chunks == decode)


def test_a_forward_of_deepseek_v3_has_116_all_to_alls():
    assert all_to_alls(1, preset("deepseek-v3")) == 116
