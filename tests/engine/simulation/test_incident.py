"""The day-long incident reproduces its numbers; on eight cards the card rule does not see it.

Labelled: E = 128 on 32 cards, 70 % of the assignments on 16 % of the experts, TPOT + 30 % ± 3, busy
share flat at 70 %, card CV about 0.85, expert CV at least 1.47.
"""

import numpy as np
import pytest

from engine.simulation import scenario as scenarios
from engine.simulation.run import ScenarioRun


def before_and_after(name, *, ticks=12, seconds=60.0):
    """Frames of the healthy engine, and of the same one at the end of the ramp."""
    found = scenarios.load(name)
    ramp = found.events[0].model_copy(update={"at": ticks * seconds, "seconds": 0.0})
    run = ScenarioRun.of(found.model_copy(update={"events": (ramp,)}))
    told = [run.tick(seconds, 1.7e9 + i * seconds)[0] for i in range(2 * ticks)]
    return told[ticks // 2 : ticks], told[ticks + ticks // 2 :]


@pytest.fixture(scope="module")
def incident():
    return before_and_after("incident-24h")


def cv(frames, name):
    counts = sum(f.arrays[name].astype(float) for f in frames)
    counts = counts.sum(axis=0) if name == "assignments" else counts
    return float((counts.std(axis=1) / counts.mean(axis=1)).mean())


def top_share(frames, share):
    counts = sum(f.arrays["assignments"].astype(float).sum(axis=0) for f in frames)
    hot = round(share * counts.shape[1])
    return float((np.sort(counts, axis=1)[:, -hot:].sum(axis=1) / counts.sum(axis=1)).mean())


def test_seventy_percent_of_the_assignments_lie_on_sixteen_percent_of_the_experts(incident):
    healthy, broken = incident
    assert top_share(healthy, 0.16) < 0.25
    assert top_share(broken, 0.16) == pytest.approx(0.70, abs=0.03)


def tpot(frames):
    """Mean seconds per output token of the requests that finished."""
    seconds = sum(frame.header.histogram_sums["tpot"] for frame in frames)
    return seconds / sum(frame.header.requests.tpot_measured for frame in frames)


def test_time_per_output_token_rises_by_thirty_percent(incident):
    healthy, broken = incident
    assert tpot(broken) / tpot(healthy) == pytest.approx(1.30, abs=0.03)


def test_the_rise_is_the_busiest_rank_and_the_sequences_that_pile_up(incident):
    healthy, broken = incident
    running = [np.mean([f.header.gauges.running for f in frames]) for frames in incident]
    finished = [sum(f.header.requests.finished for f in frames) for frames in incident]
    assert finished[1] == pytest.approx(finished[0], rel=0.1)
    assert running[1] / running[0] == pytest.approx(tpot(broken) / tpot(healthy), rel=0.15)


def test_utilisation_stays_at_seventy_percent(incident):
    for frames in incident:
        busy = [frame.header.simulated_busy_ratio for frame in frames]
        assert busy == pytest.approx([0.70] * len(busy), abs=0.01)


def test_cards_and_experts_are_as_uneven_as_labelled(incident):
    healthy, broken = incident
    assert cv(healthy, "card_assignments") < 0.1
    assert cv(broken, "card_assignments") == pytest.approx(0.85, abs=0.05)
    assert cv(broken, "assignments") == pytest.approx(1.5, abs=0.06)


def test_overflow_is_huge_and_only_counted(incident):
    _, broken = incident
    routed = sum(int(f.arrays["assignments"].sum()) for f in broken)
    overflow = sum(int(f.arrays["overflow"].sum()) for f in broken)
    assert overflow / routed == pytest.approx(0.50, abs=0.03)
    assert sum(int(f.arrays["dropped"].sum()) for f in broken) == 0


def test_eight_cards_average_the_incident_away():
    _, broken = before_and_after("incident-8-cards", ticks=6)
    assert cv(broken, "card_assignments") < 0.3
    assert cv(broken, "assignments") > 1.2
    assert top_share(broken, 0.16) > 0.6
