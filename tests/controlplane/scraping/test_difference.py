"""What happened between two scrapes."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.engine_kind import EngineKind
from controlplane.scraping.difference import Known
from controlplane.scraping.exposition import read
from controlplane.scraping.names import NAMES
from tests.support.expositions import histogram, sample, vllm

VLLM = NAMES[EngineKind.VLLM]
TTFT = "vllm:time_to_first_token_seconds"


def _known(text: str) -> Known:
    known = Known()
    known.remember(read(text, VLLM))
    return known


def _ttft(*below: int, created: float | None = None, started: float | None = None) -> str:
    """A histogram by its cumulative counts, which may contradict themselves, at (0.1, 0.25) s."""
    pairs = zip(("0.1", "0.25", "+Inf"), below, strict=True)
    lines = [f'{TTFT}_bucket{{le="{le}"}} {count}' for le, count in pairs]
    text = f"# TYPE {TTFT} histogram\n" + "\n".join(lines) + "\n"
    if created is not None:
        text += sample(f"{TTFT}_created", created)
    return text + ("" if started is None else sample("process_start_time_seconds", started))


def _counts(delta, what="ttft"):
    return [buckets.counts for buckets in delta.histograms[what]]


def test_counters_and_buckets_are_differenced_series_by_series():
    known = _known(vllm((1, 0, 0, 0, 0), generated=10) + vllm((5, 0, 0, 0, 0), engine=1))
    delta = known.since(
        read(vllm((1, 2, 0, 0, 0), generated=25) + vllm((5, 0, 0, 0, 1), engine=1), VLLM)
    )
    assert _counts(delta) == [(0, 2, 2, 2, 2), (0, 0, 0, 0, 1)]
    assert delta.counters["decode_tokens"] == 15


def test_a_restart_of_one_engine_counts_from_zero_and_leaves_the_other_alone():
    known = _known(vllm((9, 9, 0, 0, 0), generated=100) + vllm((5, 0, 0, 0, 0), engine=1))
    delta = known.since(
        read(vllm((1, 0, 0, 0, 0), generated=7) + vllm((6, 0, 0, 0, 0), engine=1), VLLM)
    )
    assert _counts(delta) == [(1, 1, 1, 1, 1), (1, 1, 1, 1, 1)]
    assert delta.counters["decode_tokens"] == 7


def test_a_series_that_appears_later_began_at_zero():
    delta = _known(vllm((5, 0, 0, 0, 0))).since(
        read(vllm((5, 0, 0, 0, 0)) + vllm((0, 2, 0, 0, 0), engine=1), VLLM)
    )
    assert _counts(delta) == [(0, 0, 0, 0, 0), (0, 2, 2, 2, 2)]


def test_a_series_that_was_away_counts_nothing_twice():
    known = _known(vllm((5, 0, 0, 0, 0)))
    known.remember(read("", VLLM))
    assert _counts(known.since(read(vllm((6, 0, 0, 0, 0)), VLLM))) == [(1, 1, 1, 1, 1)]


def test_other_buckets_are_a_restart():
    name = "vllm:time_to_first_token_seconds"
    known = _known(histogram(name, (0.1, 1.0), (3, 0, 0), 1.0))
    delta = known.since(read(histogram(name, (0.2, 1.0), (4, 0, 0), 1.0), VLLM))
    assert _counts(delta) == [(4, 4, 4)]


def test_a_sum_that_went_down_alone_is_unknown():
    name = "vllm:time_to_first_token_seconds"
    known = _known(histogram(name, (0.1,), (3, 0), 5.0))
    (buckets,) = known.since(read(histogram(name, (0.1,), (4, 0), 1.0), VLLM)).histograms["ttft"]
    assert (buckets.counts, math.isnan(buckets.total)) == ((1, 1), True)


def test_one_bucket_that_fell_is_no_restart_and_the_count_holds():
    known = _known(_ttft(1000, 5000, 9000))
    delta = known.since(read(_ttft(999, 5003, 9004), VLLM))
    assert _counts(delta) == [(0, 3, 4)]
    assert delta.problems == ["ttft has buckets that disagree with its count"]


def test_a_bucket_that_grew_by_more_than_the_count_is_held_to_it():
    known = _known(_ttft(10, 20, 40))
    delta = known.since(read(_ttft(15, 21, 42), VLLM))
    assert _counts(delta) == [(2, 2, 2)]
    assert delta.problems


def test_a_bucket_that_flickers_counts_nothing_twice():
    known, seen = _known(_ttft(1000, 5000, 9000)), 0
    for tick in range(1, 8):
        reading = read(_ttft(1000 - tick % 2, 5000, 9000 + tick), VLLM)
        seen += _counts(known.since(reading))[0][-1]
        known.remember(reading)
    assert seen == 7


def test_a_count_that_fell_is_a_restart():
    delta = _known(_ttft(5, 5, 9)).since(read(_ttft(5, 5, 8), VLLM))
    assert (_counts(delta), delta.problems) == ([(5, 5, 8)], [])


@pytest.mark.parametrize(
    ("began", "counts"),
    [
        ({"created": 200.0}, (7, 8, 12)),  # more than before already, and yet all of it is new
        ({"created": 100.0}, (2, 3, 3)),
        ({"started": 200.0}, (7, 8, 12)),
        ({"started": 100.0}, (2, 3, 3)),
        ({"created": 100.0, "started": 200.0}, (2, 3, 3)),  # the series knows best
    ],
)
def test_when_a_series_or_its_process_began_says_whether_it_is_a_restart(began, counts):
    before = dict.fromkeys(began, 100.0)
    delta = _known(_ttft(5, 5, 9, **before)).since(read(_ttft(7, 8, 12, **began), VLLM))
    assert _counts(delta) == [counts]


def test_a_count_that_fell_of_a_series_that_did_not_begin_anew_adds_nothing():
    known = _known(_ttft(5, 5, 9, created=100.0))
    delta = known.since(read(_ttft(5, 5, 8, created=100.0), VLLM))
    assert _counts(delta) == [(0, 0, 0)]
    assert delta.problems


def test_counters_made_anew_by_the_same_process_count_from_zero():
    known = _known(_ttft(5, 5, 9, started=100.0))
    assert _counts(known.since(read(_ttft(1, 1, 2, started=100.0), VLLM))) == [(1, 1, 2)]


def test_a_counter_that_says_when_it_began_is_believed():
    name = "vllm:generation_tokens"

    def tokens(value, created):
        return sample(f"{name}_total", value, kind="counter") + sample(f"{name}_created", created)

    known = _known(tokens(50, 100.0))
    assert known.since(read(tokens(70, 200.0), VLLM)).counters["decode_tokens"] == 70
    assert known.since(read(tokens(49, 100.0), VLLM)).counters["decode_tokens"] == 0


@given(st.lists(st.integers(0, 50), min_size=3, max_size=3), st.integers(0, 50))
def test_whatever_the_buckets_do_an_interval_has_what_its_count_grew_by(cells, grown):
    below = sorted(cells)
    known = _known(_ttft(20, 30, 40))
    reading = read(_ttft(below[0], below[1], max(below[2], 40 + grown)), VLLM)
    (counts,) = _counts(known.since(reading))
    assert counts[-1] == max(below[2], 40 + grown) - 40
    assert list(counts) == sorted(counts)
    assert counts[0] >= 0
