import pytest
from pydantic import ValidationError

from contract.burn_windows import BURN_TIERS, Consumer
from controlplane.slo.settings import LatencyObjective, OverflowObjective, SloSettings
from controlplane.slo.status import SloName


def test_defaults_are_the_articles_limits():
    settings = SloSettings()
    assert [settings.threshold(slo) for slo in SloName] == [0.2, 0.05, 0.05]


def test_a_threshold_between_bounds_is_refused_with_the_bounds():
    with pytest.raises(ValidationError, match=r"ttft.threshold_seconds 0.03 is not a histogram"):
        SloSettings(ttft=LatencyObjective(threshold_seconds=0.03))


def test_tiers_without_a_governor_are_refused():
    pages = tuple(tier for tier in BURN_TIERS if tier.consumer is Consumer.PAGE)
    with pytest.raises(ValidationError, match="at least one tier"):
        SloSettings(tiers=pages)


def test_more_slices_needed_than_seen_are_refused():
    with pytest.raises(ValidationError, match="slices_needed 6 is above slices_seen 5"):
        OverflowObjective(slices_needed=6)
