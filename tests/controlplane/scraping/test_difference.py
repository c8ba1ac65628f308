"""What happened between two scrapes."""

import math

from controlplane.engine_kind import EngineKind
from controlplane.scraping.difference import Known
from controlplane.scraping.exposition import read
from controlplane.scraping.names import NAMES
from tests.support.expositions import histogram, vllm

VLLM = NAMES[EngineKind.VLLM]


def _known(text: str) -> Known:
    known = Known()
    known.remember(read(text, VLLM))
    return known


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
