"""What holds whatever the signals do: bounds, paces, and no act on bad ground."""

from itertools import pairwise
from typing import Any, assert_never

from hypothesis import given, settings
from hypothesis import strategies as st

from contract.runtime_config import CAPACITY_LADDER
from controlplane.detectors.finding import Cause, FindingState
from controlplane.policy.builtin import BUILTIN, DEFAULT, FAST
from controlplane.policy.decide import decide
from controlplane.policy.knob import Knob
from controlplane.policy.snapshot import BiasFacts, KnobChange
from controlplane.slo.status import SloName, SloState
from tests.support.snapshots import (
    BAD,
    GOOD,
    NOW,
    blamed,
    config_state,
    drift,
    load,
    slo,
    snapshot,
)

RATIOS = st.floats(0, 1, allow_nan=False)
STATES = st.sampled_from(SloState)


@st.composite
def moments(draw):
    """Everything of a snapshot but its config, its time and its past."""
    statuses = tuple(
        slo(name, draw(st.floats(0, 4)) * 0.05, draw(STATES), calm=draw(st.booleans()),
            budget=draw(st.floats(-1, 1)))
        for name in SloName
    )  # fmt: skip
    at_rung = sorted((draw(RATIOS) for _ in CAPACITY_LADDER), reverse=True)
    return {
        "slos": statuses,
        "findings": (drift(draw(st.sampled_from(FindingState))),),
        "attribution": blamed(draw(st.sampled_from(Cause))),
        "bias": BiasFacts(
            live=draw(st.sampled_from([GOOD, BAD])),
            last_known_good=draw(st.sampled_from([GOOD, None])),
        ),
        "load": load(
            overflow_at_rung=dict(zip(CAPACITY_LADDER, at_rung, strict=True)),
            prefill_token_share=draw(RATIOS), queue_share_of_ttft=draw(RATIOS),
            running=draw(st.integers(0, 64)), queued=draw(st.integers(0, 9)),
        ),
        "fresh": draw(st.sampled_from([True, True, True, False])),
        "reachable": draw(st.sampled_from([True, True, True, False])),
        "frozen": draw(st.sampled_from([False, False, False, True])),
        "in_flight": draw(st.sampled_from([None, None, None, "action"])),
        "pinned": draw(st.sampled_from([(), (), (Knob.CHUNK_SIZE,)])),
    }  # fmt: skip


TIMELINES = st.lists(
    st.tuples(st.sampled_from([1.0, 5.0, 20.0, 400.0]), moments()), min_size=1, max_size=25
)


def play(timeline, policy):
    """Decide at every moment, do what is decided, and give (snapshot, decision) pairs."""
    knobs: dict[str, Any] = {"capacity_factor": "1.25", "chunk_size": 512, "max_concurrency": 64}
    changes: list[KnobChange] = []
    at, told = NOW, []
    for step, moment in timeline:
        at += step
        seen = snapshot(at=at, changes=tuple(changes), config=config_state(**knobs), **moment)
        decision = decide(seen, policy)
        told.append((seen, decision))
        made = decision.proposal
        if made is None:
            continue
        if made.knob is not Knob.ROUTER_BIAS:
            knobs[made.knob.value] = made.target
        changes.append(
            KnobChange(knob=made.knob, at=at, direction=made.direction, outcome="succeeded")
        )
    return told, changes, knobs


@settings(max_examples=60, deadline=None)
@given(TIMELINES)
def test_it_never_acts_on_stale_frozen_unreachable_or_busy_engines(timeline):
    for policy in BUILTIN.values():
        for seen, decision in play(timeline, policy)[0]:
            if not seen.fresh or not seen.reachable or seen.frozen or seen.in_flight:
                assert decision.proposal is None


@settings(max_examples=60, deadline=None)
@given(TIMELINES)
def test_bounds_are_never_left_and_every_config_is_one_that_the_contract_takes(timeline):
    for policy in (DEFAULT, FAST):
        told, _, knobs = play(timeline, policy)  # config_state validates every step
        config_state(**knobs)
        for _, decision in told:
            made = decision.proposal
            if made is None:
                continue
            match made.knob:
                case Knob.CAPACITY_FACTOR:
                    steps = CAPACITY_LADDER.index(made.target) - CAPACITY_LADDER.index(made.current)
                    assert -1 <= steps <= 2
                    assert CAPACITY_LADDER.index(made.target) >= CAPACITY_LADDER.index("1.25")
                case Knob.CHUNK_SIZE:
                    assert policy.chunk.minimum <= made.target <= policy.chunk.maximum
                    assert made.target in (made.current * 2, made.current // 2)
                case Knob.MAX_CONCURRENCY:
                    assert policy.concurrency.floor <= made.target <= 64
                case Knob.ROUTER_BIAS:
                    assert made.target == GOOD
                case other:
                    assert_never(other)


@settings(max_examples=60, deadline=None)
@given(TIMELINES)
def test_cooldowns_and_flap_budgets_hold(timeline):
    for policy in (DEFAULT, FAST):
        told, changes, _ = play(timeline, policy)
        acts = [decision.proposal for _, decision in told if decision.proposal is not None]
        for knob in Knob:
            rules = policy.knobs[knob]
            own = [(c.at, p) for c, p in zip(changes, acts, strict=True) if c.knob is knob]
            for (before, _), (after, made) in pairwise(own):
                wait = rules.relax_cooldown_seconds if made.relax else rules.act_cooldown_seconds
                assert after - before >= wait
            for at, _ in own:
                hour = [p.direction for t, p in own if at - 3600 < t <= at]
                assert len(hour) <= rules.changes_per_hour
                turns = sum(1 for a, b in pairwise(hour) if a * b < 0)
                assert turns <= rules.reversals_per_hour


@settings(max_examples=40, deadline=None)
@given(TIMELINES)
def test_the_same_snapshot_gives_the_same_decision_after_storage_too(timeline):
    for seen, decision in play(timeline, DEFAULT)[0]:
        stored = type(seen).model_validate_json(seen.model_dump_json())
        assert decide(stored, DEFAULT) == decision


@settings(max_examples=60, deadline=None)
@given(TIMELINES)
def test_every_decision_explains_itself_and_why_the_others_lost(timeline):
    for _, decision in play(timeline, DEFAULT)[0]:
        assert decision.explanation.endswith((".", ")"))
        for lost in decision.alternatives:
            assert lost.explanation
            assert lost.predicted
