"""A refit to the recordings gives the constants that the simulation uses."""

import numpy as np
import pytest

from engine.simulation.routing.popularity import DOMAIN_CORRELATION, SIGMA
from engine.simulation.serving.traffic import ARRIVAL_CV, DAY_SHAPE, LENGTHS
from trimtab.bench import calibration, routing_tables

pytestmark = pytest.mark.skipif(
    not calibration.DATA.exists(), reason="the recordings are not beside the checkout"
)


@pytest.mark.parametrize("preset", SIGMA)
def test_the_spread_of_popularity(preset):
    assert routing_tables.sigma(preset) == pytest.approx(SIGMA[preset], abs=0.002)


def test_the_correlation_between_domains():
    assert routing_tables.domain_correlation() == pytest.approx(DOMAIN_CORRELATION, abs=0.005)


@pytest.mark.parametrize("name", LENGTHS)
def test_prompt_and_output_lengths(name):
    wanted = LENGTHS[name]
    found = routing_tables.lengths(name)
    assert found == pytest.approx(
        (wanted.prompt_mean, wanted.prompt_spread, wanted.output_mean, wanted.output_spread),
        abs=0.01,
    )


def test_burstiness_and_the_shape_of_the_day():
    assert routing_tables.arrival_cv() == pytest.approx(ARRIVAL_CV["deepseek-r1"], abs=0.05)
    assert np.array(routing_tables.day_shape()) == pytest.approx(np.array(DAY_SHAPE), abs=0.01)
