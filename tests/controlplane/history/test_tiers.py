"""Choice of tiers."""

import math

import pytest

from controlplane.errors import InvalidInputError
from controlplane.history.tiers import Span, checked_span, finest, series_tier


@pytest.mark.parametrize(
    ("seconds", "single", "tier"),
    [(60, True, 1), (300, True, 1), (60, False, 10), (301, True, 10), (6 * 3600, True, 10),
     (6 * 3600 + 1, True, 60), (14 * 86400, True, 60), (15 * 86400, True, 3600)],
)  # fmt: skip
def test_longer_spans_go_less_fine(seconds, single, tier):
    span = Span(1e9, 1e9 + seconds)
    assert finest(span, kept_from={1: 1e9, 10: 1e9, 60: 1e9}, single=single) == tier
    assert finest(span, kept_from={}, single=single) == tier


@pytest.mark.parametrize(
    ("start", "tier"), [(4000, 1), (3999, 10), (3000, 10), (2999, 60), (2000, 60), (1999, 3600)]
)
def test_what_retention_took_is_not_asked_for(start, tier):
    kept_from = {1: 4000.0, 10: 3000.0, 60: 2000.0}
    assert finest(Span(start, start + 60), kept_from=kept_from, single=True) == tier


def test_a_series_has_at_most_2000_points_where_a_tier_allows_it():
    assert series_tier(Span(0, 20_000)) == 10
    assert series_tier(Span(0, 20_001)) == 60
    assert series_tier(Span(0, 7 * 86400)) == 3600
    assert series_tier(Span(0, 7 * 86400), (60,)) == 60


@pytest.mark.parametrize(
    ("start", "end"), [(1, 1), (2, 1), (0, 367 * 86400), (math.nan, 1), (0, math.inf)]
)
def test_a_bad_span_is_refused(start, end):
    with pytest.raises(InvalidInputError, match=r"span|start") as caught:
        checked_span(start, end)
    assert caught.value.field == "start"
