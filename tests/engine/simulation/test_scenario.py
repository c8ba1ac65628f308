"""Scenario files: all load, and are refused by name, field and value."""

import pytest

from engine.errors import BadRequestError
from engine.simulation import scenario

WANTED = {
    "incident-24h", "incident-8-cards", "regulator-wrong-sign", "regulator-stale",
    "bias-ramp-slow", "bias-ramp-fast", "bias-corrupt-layer", "bias-downcast",
    "traffic-domain-shift", "traffic-surge", "long-prompt-storm", "hot-expert", "dead-expert",
    "slow-rank", "slow-link", "nic-loss", "engine-restart", "telemetry-outage", "clock-skew",
    "two-faults", "quiet-low", "quiet-normal", "quiet-high",
}  # fmt: skip


def test_every_scenario_of_the_list_ships():
    assert set(scenario.names()) >= WANTED


@pytest.mark.parametrize("name", scenario.names())
def test_a_scenario_loads_and_its_truth_lies_within_it(name):
    found = scenario.load(name)
    truth = found.truth
    assert found.name == name
    if name.startswith("quiet-"):
        assert not found.events
        assert truth.onset is None
    else:
        assert truth.onset is not None
        assert truth.end is not None
        assert found.warm_seconds <= truth.onset < truth.end <= found.seconds
        assert truth.action


def test_an_unknown_scenario_names_the_known_ones():
    with pytest.raises(BadRequestError, match=r"'nope' is unknown; known: bias-corrupt-layer"):
        scenario.load("nope")


def test_a_scenario_file_that_is_not_there_is_no_unknown_name(tmp_path):
    with pytest.raises(BadRequestError, match=r"none.toml cannot be read: No such file"):
        scenario.load(str(tmp_path / "none.toml"))


def test_a_file_with_an_unknown_event_is_refused_by_field(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text('title = "x"\nseconds = 10.0\n[[events]]\nkind = "meteor"\nat = 1.0\n')
    with pytest.raises(BadRequestError, match=r"scenario mine: events\.0"):
        scenario.load(str(file))
