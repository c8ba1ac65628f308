import pytest

from controlplane.policy.builtin import SEED_LITERAL
from controlplane.policy.decide import decide
from controlplane.policy.decision import Reason
from controlplane.policy.knob import Knob
from tests.support.snapshots import (
    config_state,
    made,
    slos,
    snapshot,
)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"overflow": 0.06, "ttft": 0.5}, (Knob.CAPACITY_FACTOR, "1.25", "2")),
        ({"ttft": 0.25, "tpot": 0.1}, (Knob.CHUNK_SIZE, 512, 256)),
        ({"tpot": 0.06}, (Knob.MAX_CONCURRENCY, 64, 51)),
    ],
)
def test_the_articles_rule_is_kept_as_written(values, expected):
    decision = decide(snapshot(slos=slos(**values)), SEED_LITERAL)
    assert made(decision) == expected
    assert decision.reason is Reason.LITERAL_RULE


def test_the_articles_rule_has_no_way_back_and_starves_later_branches():
    state = config_state(capacity_factor="2")
    stuck = decide(snapshot(slos=slos(overflow=0.06, tpot=0.3), config=state), SEED_LITERAL)
    assert (stuck.proposal, stuck.reason) == (None, Reason.AT_BOUND)
    assert decide(snapshot(slos=slos(calm=True), config=state), SEED_LITERAL).proposal is None
