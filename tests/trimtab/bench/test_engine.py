"""Both sides of the engine benchmark continue the same prompts by the same tokens."""

import pytest

from trimtab.bench.engine import compare, save_qwen3_moe
from trimtab.bench.generation import Workload, agreement, text_workload

SMALL = Workload((tuple(range(40, 70)), tuple(range(50, 61))), 6)


@pytest.mark.filterwarnings("ignore")  # what transformers warns of is not ours
def test_both_sides_say_the_same_and_the_figure_says_so(tmp_path):
    checkpoint = save_qwen3_moe(tmp_path / "qwen3")
    figure = compare("engine.ratio", checkpoint, SMALL, continuous_batching=False, pairs=1)
    assert "equal tokens 100.0%" in figure.against
    assert figure.low == figure.value == figure.high


def test_prompts_spread_evenly_between_the_bounds():
    workload = text_workload(5, 10, 18, 3)
    assert [len(prompt) for prompt in workload.prompts] == [10, 12, 14, 16, 18]
    assert workload.total_tokens == 15
    assert all(0 <= token < 256 for prompt in workload.prompts for token in prompt)


def test_agreement_counts_places():
    assert agreement([[1, 2], [3, 4]], [[1, 2], [3, 5]]) == 0.75
