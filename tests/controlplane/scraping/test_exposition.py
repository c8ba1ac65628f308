"""Reading expositions: names, labels, values that are no numbers; and those of real servers."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.engine_kind import EngineKind
from controlplane.scraping.exposition import MAX_SERIES, ExpositionError, read
from controlplane.scraping.names import NAMES
from tests.support.expositions import SAMPLES, histogram, sample, vllm

VLLM, SGLANG = NAMES[EngineKind.VLLM], NAMES[EngineKind.SGLANG]


def _only(reading, what):
    (found,) = [value for (name, _), value in reading.histograms.items() if name == what]
    return found


def test_data_parallel_engines_are_kept_apart_and_their_gauges_add_up():
    reading = read(vllm((1, 2, 0, 0, 0)) + vllm((4, 0, 0, 0, 1), engine=1), VLLM)
    assert [v.count for (name, _), v in reading.histograms.items() if name == "ttft"] == [3, 5]
    assert reading.gauges == {"running": 6, "queued": 4, "kv_used": 0.25}
    assert reading.model == "tiny"


def test_what_the_endpoint_lacks_is_missing_not_zero():
    reading = read(sample("vllm:num_requests_running", 1), VLLM)
    assert set(reading.missing) == {
        "ttft", "tpot", "inter_token", "queue_time", "request_time", "queued", "kv_used",
        "prefill_tokens", "decode_tokens", "finished", "rejected", "failed",
    }  # fmt: skip
    assert reading.histograms == {}


@pytest.mark.parametrize(
    ("kind", "name", "what"),
    [
        ("vllm", "vllm:time_per_output_token_seconds", "inter_token"),
        ("vllm", "vllm:inter_token_latency_seconds", "inter_token"),
        ("sglang", "sglang:time_per_output_token_seconds", "inter_token"),
        ("sglang", "sglang:request_time_per_output_token_seconds", "tpot"),
    ],
)
def test_old_and_new_names_are_read_as_what_they_measure(kind, name, what):
    reading = read(histogram(name, (0.1,), (1, 1), 1.0), NAMES[EngineKind(kind)])
    assert [key[0] for key in reading.histograms] == [what]


def test_the_newest_name_wins_where_a_release_has_both():
    text = sample("vllm:gpu_cache_usage_perc", 0.9) + sample("vllm:kv_cache_usage_perc", 0.1)
    assert read(text, VLLM).gauges["kv_used"] == 0.1


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-1"])
def test_a_value_that_is_no_count_is_left_out_and_named(value):
    text = vllm().replace('running{engine="0",model_name="tiny"} 3', f"running{{}} {value}")
    assert "running" in read(text, VLLM).missing
    counted = read(sample("vllm:prompt_tokens_total", value, kind="counter"), VLLM)
    assert counted.counters == {}
    assert counted.problems


@pytest.mark.parametrize(
    "damaged",
    [
        'x_bucket{le="0.1"} NaN\nx_bucket{le="+Inf"} 3\n',
        'x_bucket{le="0.1"} 4\nx_bucket{le="+Inf"} 3\n',
        'x_bucket{le="0.1"} 4\n',
    ],
)
def test_a_histogram_that_is_not_whole_is_left_out(damaged):
    text = "# TYPE x histogram\n" + damaged
    reading = read(text.replace("x", "vllm:time_to_first_token_seconds"), VLLM)
    assert reading.histograms == {}
    assert "not cumulative" in reading.problems[0]


def test_a_missing_last_bucket_is_taken_from_the_count():
    text = '# TYPE x histogram\nx_bucket{le="0.1"} 4\nx_count 6\nx_sum NaN\n'
    buckets = _only(read(text.replace("x", "vllm:time_to_first_token_seconds"), VLLM), "ttft")
    assert (buckets.counts, str(buckets.total)) == ((4, 6), "nan")


def test_ranks_of_one_tensor_parallel_group_are_not_added():
    def rank(tp: int, dp: int) -> str:
        return f'dp_rank="{dp}",tp_rank="{tp}"'

    text = "# TYPE sglang:num_running_reqs gauge\n" + "".join(
        f"sglang:num_running_reqs{{{rank(tp, dp)}}} {5 + dp}\n" for dp in (0, 1) for tp in (2, 3)
    )
    assert read(text, SGLANG).gauges["running"] == 5 + 6


@pytest.mark.parametrize("text", ["{{{", "name value\n", '\x00{le="\n'])
def test_text_of_another_kind_is_one_error(text):
    with pytest.raises(ExpositionError):
        read(text, VLLM)


@settings(deadline=None, max_examples=150)
@given(
    st.text(max_size=40)
    | st.lists(
        st.sampled_from(
            ["vllm:time_to_first_token_seconds", "_bucket", "{", "}", 'le="', '"', ",", "=", " ",
             "1", "NaN", "\n", "# TYPE ", "histogram", "\\", "+Inf", "1e400", "-"]
        ),
        max_size=30,
    ).map("".join)
)  # fmt: skip
def test_any_text_is_a_reading_or_that_error(text):
    try:
        reading = read(text, VLLM)
    except ExpositionError:
        return
    assert all(buckets.count >= 0 for buckets in reading.histograms.values())


def test_more_series_than_an_engine_has_are_refused():
    text = "\n".join(f'm{{i="{i}"}} 1' for i in range(MAX_SERIES + 1)) + "\n"
    with pytest.raises(ExpositionError, match=str(MAX_SERIES)):
        read(text, VLLM)


def _real(name: str) -> str:
    file = SAMPLES / name
    if not file.exists():
        pytest.skip(f"the samples of real servers are not here: {file.name}")
    return file.read_text("utf-8")


def test_a_real_overloaded_sglang_server():
    reading = read(_real("sglang_llama31_8b_overloaded.prom"), SGLANG)
    assert reading.model == "meta-llama/Llama-3.1-8B-Instruct"
    assert reading.gauges == {"running": 162, "queued": 2826, "kv_used": 0.28}
    ttft = _only(reading, "ttft")
    assert (ttft.count, ttft.counts[ttft.bounds.index(30.0)]) == (11008, 2513)
    assert _only(reading, "inter_token").count == 7_400_757  # tokens, so not TPOT
    assert set(reading.missing) == {"tpot", "queue_time", "finished", "rejected", "failed"}


def test_a_real_vllm_server_with_two_engines():
    reading = read(_real("vllm_dp2_two_engines.prom"), VLLM)
    assert reading.gauges == {"running": 8, "queued": 2, "kv_used": 0.45}


def test_a_real_excerpt_whose_first_help_line_is_missing():
    reading = read(_real("sglang_deepseek_r1_excerpt.prom"), SGLANG)
    assert {what: value for (what, _), value in reading.counters.items()} == {
        "finished": 217, "failed": 157,
    }  # fmt: skip
