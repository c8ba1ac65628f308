import numpy as np
import pytest

from contract.runtime_config import CAPACITY_LADDER, RuntimeConfig
from controlplane.policy.builtin import DEFAULT
from controlplane.policy.facts import bias_facts, load_facts, slots_at_rung
from controlplane.policy.snapshot import BiasFacts, LoadFacts
from tests.support.engine_windows import BAD, GOOD, START, histogram, window


def flowing(index, at_rung, *, total=64_000, **parts):
    over = np.repeat(np.array(at_rung)[:, None] * total / 2, 2, axis=1)
    arrays = {
        "assignments": np.full((2, 2, 16), total / 64), "overflow_at_rung": over,
        "overflow": over[2],
    }  # fmt: skip
    return window(index, arrays=arrays, **parts)


def test_slots_are_the_exact_ceiling_and_never_below_the_minimum():
    slots = slots_at_rung(512, experts=128, top_k=8, cap_min=8)
    assert slots == dict(zip(CAPACITY_LADDER, (32, 36, 40, 48, 56, 64), strict=True))
    assert set(slots_at_rung(16, experts=128, top_k=8, cap_min=8).values()) == {8}
    # 1.5 × 2 as a float product could be a hair above 3
    assert slots_at_rung(32, experts=128, top_k=8, cap_min=1)["1.5"] == 3


def test_facts_sum_the_newest_windows_and_keep_the_peak_of_the_calm_time():
    calm = [flowing(i, [0.2, 0.15, 0.05, 0.02, 0.01, 0.0]) for i in range(20)]
    spike = [flowing(20, [0.4, 0.3, 0.2, 0.1, 0.05, 0.02])]
    after = [flowing(21 + i, [0.2, 0.15, 0.05, 0.02, 0.01, 0.0]) for i in range(6)]
    facts = load_facts([*calm, *spike, *after], DEFAULT)
    assert facts.overflow_ratio == pytest.approx(0.05)
    assert facts.overflow_at_rung["1.5"] == pytest.approx(0.02)
    assert facts.overflow_at_rung_peak["1.5"] == pytest.approx(0.1)
    assert facts.assignments == 5 * 64_000
    assert facts.tokens_per_step == 10.0
    assert facts.prefill_token_share == 0.5
    assert facts.gate_mass_kept_ratio == pytest.approx(0.99)


def test_the_peak_forgets_what_lies_before_the_calm_time():
    spike = [flowing(0, [0.4, 0.3, 0.2, 0.1, 0.05, 0.02])]
    calm = [flowing(1 + i, [0.2, 0.15, 0.05, 0.02, 0.01, 0.0]) for i in range(31)]
    facts = load_facts([*spike, *calm], DEFAULT)
    assert facts.overflow_at_rung_peak["1.5"] == pytest.approx(0.02)


def test_the_queue_share_of_ttft_is_a_ratio_of_means():
    queue = np.zeros(16)
    queue[6] = 10  # 0.1 to 0.2 s
    arrays = {1: {"ttft": histogram("ttft", good=0, bad=10, threshold=0.2), "queue_time": queue}}
    facts = load_facts([window(0, by_generation=arrays)], DEFAULT)
    assert facts.queue_share_of_ttft == pytest.approx(0.15 / 0.225)


def test_the_newest_probe_counts():
    windows = [window(0, probe_nll=1.5), window(1, probe_nll=1.7), window(2)]
    assert load_facts(windows, DEFAULT).probe_nll == 1.7


def test_dropless_engines_have_an_overflow_ratio_only_where_it_was_counted():
    config = RuntimeConfig(capacity_factor=None)
    assert load_facts([window(0, config=config)], DEFAULT).overflow_ratio is None


def test_no_windows_no_facts():
    assert load_facts([], DEFAULT) == LoadFacts()
    assert bias_facts([]) == BiasFacts()


def test_the_bias_is_live_since_its_first_window():
    windows = [window(0), window(1, live=BAD), window(2, live=BAD)]
    facts = bias_facts(windows)
    assert (facts.live, facts.last_known_good) == (BAD, GOOD)
    assert facts.live_since == START + 10.0
