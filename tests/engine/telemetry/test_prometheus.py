import math
import shutil
import subprocess

import numpy as np
import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.parser import text_string_to_metric_families

from contract.frame import ARRAYS, SUM_KEYS, FrameHeader, RequestCounts, SchedulerGauges
from contract.frame_codec import Frame
from contract.metrics import METRICS, Plane
from contract.runtime_config import RuntimeConfig
from engine.telemetry.prometheus import EngineCollector
from engine.telemetry.text_format import encode_families

UNUSED = {"moe_rerouted_assignments_total", "moe_spilled_assignments_total"}


def full_frame(layers=58, experts=256, top_k=8, ranks=16, sequence=0, **named) -> Frame:
    """A frame with every array filled, in the shape of a DeepSeek-V3 EP group."""
    named.setdefault("live_bias", None)
    header = FrameHeader(
        contract_version="1.0", engine_id="e0", group="g", model="m", boot_id="b",
        sequence=sequence, started_unix_seconds=1.0, interval_seconds=1.0, layers=layers,
        experts=experts, top_k=top_k, ranks=ranks, steps=10, tokens=(300, 100), generations=(1,),
        config_generation=1, config=RuntimeConfig(), bias_version=2, bias_distance=0.25,
        gauges=SchedulerGauges(running=3, queued=1, kv_blocks_used_ratio=0.5),
        requests=RequestCounts(admitted=4, finished=3, rejected=1),
        gate_mass_kept=9.0, gate_mass_total=10.0, required_capacity_factor=1.5,
        histogram_sums=dict.fromkeys(SUM_KEYS, 1.0), **named,
    )  # fmt: skip
    draw = np.random.default_rng(sequence)
    arrays = {
        name: draw.integers(1, 9, size=header.shape(spec)).astype(np.uint32)
        for name, spec in ARRAYS.items()
    }
    return Frame(header=header, arrays=arrays)


def series(metrics: EngineCollector):
    text = encode_families(metrics.collect()).decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(found, name: str, **labels: str) -> float:
    wanted = tuple(sorted({"model": "m", "engine": "e0", **labels}.items()))
    return found[(name, wanted)]


def test_a_deepseek_v3_group_has_at_most_1000_series_even_with_every_outcome():
    metrics = EngineCollector(lambda: {"sent": 1, "dropped": 0})
    metrics.observe(full_frame())
    assert len(series(metrics)) <= 1000


def test_every_engine_series_of_the_contract_is_exposed_and_nothing_else():
    metrics = EngineCollector(lambda: {"sent": 1, "dropped": 0})
    metrics.observe(full_frame(layers=2, experts=8, ranks=2))
    text = encode_families(metrics.collect()).decode()
    found = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")}
    assert found == {name for name, m in METRICS.items() if m.plane is Plane.ENGINE}
    assert "_created" not in text
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            metric = METRICS.get(sample.name) or METRICS[sample.name.rsplit("_", 1)[0]]
            assert set(sample.labels) - {"le"} == set(metric.all_labels)


def test_outcomes_of_policies_that_never_ran_have_no_series():
    metrics = EngineCollector()
    frame = full_frame(layers=2, experts=8, ranks=2)
    for name in ("rerouted", "spilled"):
        frame.arrays[name][:] = 0
    metrics.observe(frame)
    assert not {name for name, _ in series(metrics)} & UNUSED


def test_counters_add_frames_and_gauges_show_the_last():
    metrics = EngineCollector()
    frames = [full_frame(2, 8, 2, 2, sequence=0), full_frame(2, 8, 2, 2, sequence=1)]
    for frame in frames:
        metrics.observe(frame)
    found = series(metrics)
    overflow = sum(int(frame.arrays["overflow"][1]) for frame in frames)
    assert value(found, "moe_overflow_assignments_total", layer="1") == overflow
    assert value(found, "moe_router_bias_version") == 2
    assert value(found, "moe_gate_mass_kept_ratio") == pytest.approx(0.9)
    assert value(found, "moe_engine_requests_total", outcome="finished") == 6
    cells = sum(frame.arrays["ttft"].sum(axis=0).astype(int) for frame in frames)
    name = "gen_ai_server_time_to_first_token_seconds"
    assert value(found, f"{name}_count") == cells.sum()
    assert value(found, f"{name}_bucket", le="0.2") == cells[:10].sum()
    assert value(found, f"{name}_sum") == 2.0


def test_cv_gauges_follow_the_formulas():
    metrics = EngineCollector()
    frame = full_frame(1, 4, 2, 2)
    frame.arrays["assignments"][:] = np.array([[[400, 200, 200, 200]], [[0, 0, 0, 0]]])
    frame.arrays["card_assignments"][:] = [[600, 400]]
    metrics.observe(frame)
    found = series(metrics)
    raw = math.sqrt(3 * 50**2 + 150**2) / 2 / 250
    assert value(found, "moe_expert_load_cv_ratio", layer="0") == pytest.approx(raw)
    assert value(found, "moe_expert_load_cv_debiased_ratio", layer="0") == pytest.approx(
        math.sqrt(raw**2 - 2 / 1000)
    )
    card = (1 * 2) / (1000 * 3)
    assert value(found, "moe_card_load_cv_debiased_ratio", layer="0") == pytest.approx(
        math.sqrt(0.2**2 - card)
    )
    assert value(found, "moe_load_max_over_mean_ratio", layer="0") == pytest.approx(1.6)
    assert value(found, "moe_load_top_share_ratio", layer="0") == pytest.approx(0.4)


def test_psi_compares_with_the_time_before_the_bias_left_the_last_good():
    good, bad = "a" * 64, "b" * 64
    metrics = EngineCollector()
    even = full_frame(1, 4, 2, 2, live_bias=good, lkg_bias=good)
    even.arrays["assignments"][:] = 10_000
    metrics.observe(even)
    assert value(series(metrics), "moe_load_psi_ratio", layer="0") == pytest.approx(0, abs=1e-6)
    skewed = full_frame(1, 4, 2, 2, live_bias=bad, lkg_bias=good)
    skewed.arrays["assignments"][:] = np.array([[[90_000, 1_000, 1_000, 1_000]]] * 2)
    for _ in range(70):
        metrics.observe(skewed)
    assert value(series(metrics), "moe_load_psi_ratio", layer="0") > 0.25


def test_a_frame_in_which_nothing_ran_keeps_the_gauges():
    metrics = EngineCollector()
    metrics.observe(full_frame(1, 4, 2, 2))
    before = series(metrics)
    idle = full_frame(1, 4, 2, 2)
    for values in idle.arrays.values():
        values[:] = 0
    metrics.observe(idle)
    name = "moe_expert_load_cv_ratio"
    assert value(series(metrics), name, layer="0") == value(before, name, layer="0")


def test_before_the_first_frame_there_is_nothing():
    assert series(EngineCollector()) == {}


def test_the_text_format_equals_the_clients_own():
    metrics = EngineCollector()
    registry = CollectorRegistry(auto_describe=False)
    registry.register(metrics)
    metrics.observe(full_frame(2, 4, 2, 2))
    mine = text_string_to_metric_families(encode_families(metrics.collect()).decode())
    theirs = text_string_to_metric_families(generate_latest(registry).decode())
    assert list(mine) == list(theirs)


def test_label_values_and_odd_numbers_are_escaped():
    family = GaugeMetricFamily("g", 'a\\ "b"\nc', labels=["x"])
    for text, number in (('q"\\\n', math.inf), ("n", math.nan), ("m", -math.inf)):
        family.add_metric([text], number)
    (again,) = text_string_to_metric_families(encode_families([family]).decode())
    assert [sample.labels["x"] for sample in again.samples] == ['q"\\\n', "n", "m"]
    assert again.samples[0].value == math.inf
    assert math.isnan(again.samples[1].value)
    assert again.documentation == family.documentation


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_finds_no_fault_with_the_exposition():
    metrics = EngineCollector(lambda: {"sent": 1, "dropped": 0})
    metrics.observe(full_frame(2, 8, 2, 2))
    result = subprocess.run(
        ["promtool", "check", "metrics"],
        check=False,
        input=encode_families(metrics.collect()),
        capture_output=True,
    )
    assert (result.returncode, result.stderr) == (0, b"")
