"""Rates are per direction, and ratios come from the profile."""

import pytest

from engine.errors import BadRequestError
from engine.simulation.cost.topology import TOPOLOGIES, topology


def test_nvlink_of_h100_is_450_gb_per_second_in_one_direction():
    assert topology("hgx-h100").domain_rate == 450e9


@pytest.mark.parametrize(
    ("name", "link", "ratio"),
    [("hgx-h100", "ndr", 9), ("hgx-h100", "hdr", 18), ("hgx-h800", "ndr", 4)],
)
def test_leaving_the_domain_costs_the_ratio_of_the_rates(name, link, ratio):
    assert topology(name, link=link).rate_ratio == pytest.approx(ratio)


def test_nvl72_is_one_domain_of_72_cards_in_trays_of_four():
    assert (TOPOLOGIES["nvl72"].domain, TOPOLOGIES["nvl72"].node) == (72, 4)


def test_unknown_names_are_refused():
    with pytest.raises(BadRequestError, match="topology 'moon' is unknown"):
        topology("moon")
    with pytest.raises(BadRequestError, match="link 'fibre' is unknown"):
        topology("hgx-h100", link="fibre")
