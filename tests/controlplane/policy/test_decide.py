import pytest

from controlplane.detectors.finding import Cause, DetectorName, FindingState
from controlplane.policy.builtin import DEFAULT, FAST, SEED_LITERAL
from controlplane.policy.decide import decide
from controlplane.policy.decision import Reason
from controlplane.policy.knob import Knob, Mode
from controlplane.policy.snapshot import BiasFacts, KnobChange
from controlplane.slo.status import SloName, SloState
from tests.support.snapshots import (
    BAD,
    GOOD,
    NOW,
    OVERFLOW_AT_RUNG,
    SLOTS,
    blamed,
    config_state,
    drift,
    drifted,
    known,
    load,
    slo,
    slos,
    snapshot,
)


def change(knob, ago, direction=1):
    return KnobChange(knob=knob, at=NOW - ago, direction=direction, outcome="succeeded")


def made(decision):
    assert decision.proposal is not None, decision.explanation
    return (
        known(decision.proposal).knob,
        known(decision.proposal).current,
        known(decision.proposal).target,
    )


# --- holds ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ({"fresh": False, "data_age_seconds": 44.0}, Reason.STALE),
        ({"fresh": False, "data_age_seconds": None}, Reason.STALE),
        ({"reachable": False}, Reason.UNREACHABLE),
        ({"config": None}, Reason.UNREACHABLE),
        ({"frozen": True, "freeze_reason": "deploy"}, Reason.FROZEN),
        ({"config": config_state(frozen=True, router_bias=BAD)}, Reason.FROZEN),
        ({"in_flight": "action-1"}, Reason.IN_FLIGHT),
    ],
)
@pytest.mark.parametrize("policy", [DEFAULT, FAST, SEED_LITERAL], ids=lambda p: p.name)
def test_nothing_is_done_on_stale_frozen_or_busy_engines(parts, reason, policy):
    decision = decide(drifted(slos=slos(overflow=0.3), **parts), policy)
    assert decision.proposal is None
    assert decision.reason is reason


def test_a_healthy_engine_is_left_alone_and_says_so():
    decision = decide(snapshot(), DEFAULT)
    assert (decision.proposal, decision.reason) == (None, Reason.HEALTHY)


def test_inconclusive_slos_are_not_healthy():
    unsure = (slo(SloName.TTFT, 0.1, SloState.INCONCLUSIVE), *slos()[1:])
    decision = decide(snapshot(slos=unsure), DEFAULT)
    assert decision.reason is Reason.INCONCLUSIVE
    assert "ttft" in decision.explanation


# --- bias ----------------------------------------------------------------------------------------


def test_a_drifted_bias_goes_back_to_the_last_known_good_without_a_lease():
    decision = decide(drifted(), DEFAULT)
    assert made(decision) == (Knob.ROUTER_BIAS, BAD, GOOD)
    assert decision.mode is Mode.APPROVE
    assert decision.reason is Reason.BIAS_DRIFT
    assert known(decision.proposal).lease_seconds is None
    assert known(decision.proposal).target_slo is None
    assert "0.41" in decision.explanation


def test_the_bias_beats_capacity_when_it_is_to_blame():
    decision = decide(drifted(slos=slos(overflow=0.09)), FAST)
    assert made(decision)[0] is Knob.ROUTER_BIAS
    assert known(decision.proposal).target_slo is SloName.OVERFLOW
    lost = decision.alternatives[0]
    assert (lost.knob, lost.lost_because) == (Knob.CAPACITY_FACTOR, Reason.OUTRANKED)


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ({"bias": BiasFacts(live=BAD)}, Reason.NO_LAST_KNOWN_GOOD),
        ({"bias": BiasFacts(live=GOOD, last_known_good=GOOD)}, Reason.WHATIF_NO_GAIN),
        ({"attribution": blamed(Cause.TRAFFIC, 0.1)}, Reason.NOT_THE_BIAS),
        ({"attribution": None}, Reason.NOT_THE_BIAS),
        ({"pinned": (Knob.ROUTER_BIAS,)}, Reason.PINNED),
        ({"quarantined": {f"router_bias={GOOD}": NOW + 60}}, Reason.QUARANTINED),
        ({"awaiting_approval": (f"router_bias={GOOD}",)}, Reason.AWAITING_APPROVAL),
        ({"changes": (change(Knob.ROUTER_BIAS, 3600),)}, Reason.COOLDOWN),
        ({"live_knobs": (Knob.CHUNK_SIZE,)}, Reason.KNOB_ABSENT),
    ],
)
def test_the_bias_stays_with_a_reason(parts, reason):
    decision = decide(drifted(**parts), DEFAULT)
    assert decision.proposal is None
    assert decision.reason is reason
    assert [lost.lost_because for lost in decision.alternatives] == [reason]


def test_a_changed_load_without_gain_by_what_if_is_told():
    change_only = drift(FindingState.FIRING).model_copy(
        update={"detector": DetectorName.LOAD_CHANGE}
    )
    decision = decide(drifted(findings=(drift(FindingState.CLEAR), change_only)), DEFAULT)
    assert decision.reason is Reason.WHATIF_NO_GAIN


def test_an_expired_quarantine_blocks_nothing():
    decision = decide(drifted(quarantined={f"router_bias={GOOD}": NOW - 1}), DEFAULT)
    assert made(decision)[0] is Knob.ROUTER_BIAS


def test_a_blocked_bias_leaves_the_way_to_capacity():
    decision = decide(
        drifted(slos=slos(overflow=0.09), awaiting_approval=(f"router_bias={GOOD}",)), DEFAULT
    )
    assert made(decision) == (Knob.CAPACITY_FACTOR, "1.25", "1.5")
    assert decision.alternatives[0].lost_because is Reason.AWAITING_APPROVAL


# --- capacity ------------------------------------------------------------------------------------


def test_overflow_raises_c_to_the_rung_that_holds_the_target_under_a_lease():
    decision = decide(snapshot(slos=slos(overflow=0.06)), DEFAULT)
    assert made(decision) == (Knob.CAPACITY_FACTOR, "1.25", "1.5")
    assert decision.reason is Reason.OVERFLOW_BREACH
    assert known(decision.proposal).lease_seconds == DEFAULT.lease_seconds
    assert "3.0%" in decision.explanation


@pytest.mark.parametrize(
    ("overflow", "at_rung", "target"),
    [
        (0.06, {"1.5": 0.05, "1.75": 0.03, "2": 0.01}, "1.5"),
        (0.16, {"1.5": 0.05, "1.75": 0.03, "2": 0.01}, "1.75"),
        (0.16, {"1.5": 0.03, "1.75": 0.02, "2": 0.01}, "1.5"),
        (0.50, {"1.5": 0.45, "1.75": 0.40, "2": 0.38}, "1.75"),
    ],
)
def test_steps_are_bounded_one_rung_or_two_above_15_percent(overflow, at_rung, target):
    facts = load(overflow_at_rung={"1.25": overflow, **at_rung})
    decision = decide(snapshot(slos=slos(overflow=overflow), load=facts), DEFAULT)
    assert made(decision)[2] == target


def test_steps_are_judged_at_the_present_c_although_the_breach_began_at_another():
    facts = load(overflow_at_rung={"1.25": 0.18, "1.5": 0.16, "1.75": 0.14})
    decision = decide(snapshot(slos=slos(overflow=0.14), load=facts), DEFAULT)
    assert made(decision)[2] == "1.75"
    assert "at C = 1.25 throughout they would have had 18.0%" in decision.explanation


def test_equal_slots_at_neighbouring_rungs_make_the_knob_inert():
    facts = load(
        overflow_at_rung=dict.fromkeys(OVERFLOW_AT_RUNG, 0.09),
        slots_at_rung=dict.fromkeys(SLOTS, 8),
    )
    decision = decide(snapshot(slos=slos(overflow=0.09), load=facts), DEFAULT)
    assert decision.proposal is None
    assert decision.reason is Reason.KNOB_INERT
    assert decision.escalate


def test_slots_alone_tell_that_the_knob_is_inert_when_rungs_were_not_counted():
    facts = load(overflow_at_rung={}, slots_at_rung=dict.fromkeys(SLOTS, 8))
    decision = decide(snapshot(slos=slos(overflow=0.09), load=facts), DEFAULT)
    assert decision.reason is Reason.KNOB_INERT


@pytest.mark.parametrize(
    ("knobs", "reason"),
    [
        ({"capacity_factor": "2"}, Reason.AT_BOUND),
        ({"capacity_factor": None}, Reason.KNOB_INERT),
        ({"overflow_mode": "virtual"}, Reason.KNOB_INERT),
    ],
)
def test_where_c_cannot_help_a_human_is_asked(knobs, reason):
    state = config_state(**knobs)
    decision = decide(snapshot(slos=slos(overflow=0.2), config=state), DEFAULT)
    assert (decision.proposal, decision.reason, decision.escalate) == (None, reason, True)


def test_overflow_and_tpot_in_breach_without_room_pages():
    decision = decide(snapshot(slos=slos(tpot=0.07, overflow=0.09)), DEFAULT)
    assert decision.proposal is None
    assert decision.reason is Reason.NO_FEASIBLE_ACTION
    assert decision.escalate
    assert "fewer running sequences overflow more" in decision.explanation


def test_overflow_and_tpot_in_breach_raise_c_when_tpot_has_room_at_that_rung():
    tpot = slo(SloName.TPOT, 0.03, SloState.BREACHED)
    both = (slos()[0], tpot, slo(SloName.OVERFLOW, 0.09))
    assert made(decide(snapshot(slos=both), DEFAULT)) == (Knob.CAPACITY_FACTOR, "1.25", "1.5")


# --- latencies -----------------------------------------------------------------------------------


def test_tpot_with_much_prefill_halves_the_chunk():
    decision = decide(snapshot(slos=slos(tpot=0.07)), DEFAULT)
    assert made(decision) == (Knob.CHUNK_SIZE, 512, 256)
    assert decision.alternatives[0].knob is Knob.MAX_CONCURRENCY


def test_tpot_of_a_decoding_engine_cuts_concurrency_by_a_fifth():
    facts = load(prefill_token_share=0.05)
    decision = decide(snapshot(slos=slos(tpot=0.07), load=facts), DEFAULT)
    assert made(decision) == (Knob.MAX_CONCURRENCY, 64, 51)


def test_a_limit_above_what_runs_is_set_below_what_runs():
    facts = load(prefill_token_share=0.05, running=40)
    decision = decide(snapshot(slos=slos(tpot=0.07), load=facts), DEFAULT)
    assert made(decision) == (Knob.MAX_CONCURRENCY, 64, 32)


def test_a_limit_that_the_load_is_far_from_is_not_cut():
    facts = load(prefill_token_share=0.05, running=20)
    decision = decide(snapshot(slos=slos(tpot=0.07), load=facts), DEFAULT)
    assert made(decision) == (Knob.CHUNK_SIZE, 512, 256)
    lost = {each.knob: each.lost_because for each in decision.alternatives}
    assert lost[Knob.MAX_CONCURRENCY] is Reason.KNOB_INERT


def test_concurrency_stops_at_one():
    facts = load(prefill_token_share=0.05, running=1)
    state = config_state(max_concurrency=1, chunk_size=256)
    decision = decide(snapshot(slos=slos(tpot=0.07), load=facts, config=state), DEFAULT)
    assert (decision.proposal, decision.reason) == (None, Reason.AT_BOUND)
    assert decision.escalate


def test_a_chunk_outside_its_bounds_says_what_they_are():
    state = config_state(chunk_size=256, max_concurrency=200)
    found = decide(
        snapshot(slos=slos(tpot=0.09), config=state, load=load(prefill_token_share=0.6)), DEFAULT
    )
    told = [known(found.proposal).explanation] if found.proposal else []
    told += [lost.explanation for lost in found.alternatives]
    assert any(
        "Chunk size 128 is outside its bounds (256 to 2048, and at least the concurrency 200)"
        in each
        for each in told
    )


def test_ttft_grows_chunks_when_tpot_has_room():
    decision = decide(snapshot(slos=slos(ttft=0.4, tpot=0.03)), DEFAULT)
    assert made(decision) == (Knob.CHUNK_SIZE, 512, 1024)
    assert decision.reason is Reason.TTFT_BREACH


def test_ttft_shrinks_chunks_when_short_prompts_wait_behind_long_ones():
    facts = load(queue_share_of_ttft=0.8, prefill_token_share=0.9)
    decision = decide(snapshot(slos=slos(ttft=0.4, tpot=0.045), load=facts), DEFAULT)
    assert made(decision) == (Knob.CHUNK_SIZE, 512, 256)


def test_ttft_gives_slots_back_when_requests_wait_for_one():
    facts = load(queued=30, running=40)
    state = config_state(max_concurrency=40)
    decision = decide(snapshot(slos=slos(ttft=0.4), load=facts, config=state), DEFAULT)
    assert made(decision) == (Knob.MAX_CONCURRENCY, 40, 50)


def test_ttft_without_a_cause_that_a_knob_mends_pages():
    decision = decide(snapshot(slos=slos(ttft=0.4, tpot=0.045)), DEFAULT)
    assert (decision.proposal, decision.reason) == (None, Reason.NO_FEASIBLE_ACTION)
    assert decision.escalate


def test_chunks_stay_at_or_above_the_concurrency():
    state = config_state(chunk_size=512, max_concurrency=400)
    facts = load(running=400)
    decision = decide(snapshot(slos=slos(tpot=0.07), config=state, load=facts), DEFAULT)
    assert made(decision)[0] is Knob.MAX_CONCURRENCY
    assert decision.alternatives[0].lost_because is Reason.AT_BOUND


# --- relaxing ------------------------------------------------------------------------------------


def relaxing(**parts):
    return snapshot(slos=slos(calm=True), **parts)


def test_calm_brings_concurrency_back_by_a_share_of_the_baseline():
    decision = decide(relaxing(config=config_state(max_concurrency=40)), DEFAULT)
    assert made(decision) == (Knob.MAX_CONCURRENCY, 40, 44)
    assert known(decision.proposal).relax
    assert known(decision.proposal).lease_seconds == DEFAULT.lease_seconds


def test_the_last_step_to_the_baseline_carries_no_lease():
    decision = decide(relaxing(config=config_state(max_concurrency=62)), DEFAULT)
    assert made(decision)[2] == 64
    assert known(decision.proposal).lease_seconds is None


@pytest.mark.parametrize(("chunk", "target"), [(256, 512), (2048, 1024)])
def test_calm_brings_the_chunk_back_one_step(chunk, target):
    decision = decide(relaxing(config=config_state(chunk_size=chunk)), DEFAULT)
    assert made(decision) == (Knob.CHUNK_SIZE, chunk, target)


def test_c_comes_down_only_where_the_lower_rung_holds_three_percent():
    state = config_state(capacity_factor="1.75")
    high = load(overflow_at_rung_peak={"1.5": 0.035})
    low = load(overflow_at_rung_peak={"1.5": 0.02})
    held = decide(relaxing(config=state, load=high), DEFAULT)
    assert (held.proposal, held.reason) == (None, Reason.GUARD)
    assert not held.escalate
    assert made(decide(relaxing(config=state, load=low), DEFAULT))[2] == "1.5"


def test_c_never_goes_below_the_baseline():
    decision = decide(relaxing(), DEFAULT)
    assert decision.reason is Reason.HEALTHY


def test_nothing_is_relaxed_before_it_is_calm_or_when_the_budget_is_low():
    state = config_state(max_concurrency=40)
    assert decide(snapshot(config=state), DEFAULT).reason is Reason.HEALTHY
    poor = snapshot(slos=slos(calm=True, budget=0.1), config=state)
    assert decide(poor, DEFAULT).reason is Reason.BUDGET_SPENT
    assert made(decide(poor, FAST))[0] is Knob.MAX_CONCURRENCY  # the demo relaxes regardless


def test_a_knob_that_cools_down_leaves_the_way_to_the_next():
    state = config_state(max_concurrency=40, chunk_size=256)
    changes = (change(Knob.MAX_CONCURRENCY, 100, -1), change(Knob.CHUNK_SIZE, 900, -1))
    decision = decide(relaxing(config=state, changes=changes), DEFAULT)
    assert made(decision)[0] is Knob.CHUNK_SIZE
    assert decision.alternatives[0].lost_because is Reason.COOLDOWN


# --- modes and pace ------------------------------------------------------------------------------


def with_mode(knob, mode):
    rules = DEFAULT.knobs[knob].model_copy(update={"mode": mode})
    return DEFAULT.model_copy(update={"knobs": {**DEFAULT.knobs, knob: rules}})


def test_a_knob_that_is_off_is_told_and_not_moved():
    policy = with_mode(Knob.CAPACITY_FACTOR, Mode.OFF)
    decision = decide(snapshot(slos=slos(overflow=0.09)), policy)
    assert (decision.proposal, decision.reason) == (None, Reason.MODE_OFF)


def test_a_shadow_proposal_is_made_but_never_keeps_an_automatic_one_from_acting():
    policy = with_mode(Knob.ROUTER_BIAS, Mode.SHADOW)
    alone = decide(drifted(), policy)
    assert (made(alone)[0], alone.mode) == (Knob.ROUTER_BIAS, Mode.SHADOW)
    both = decide(drifted(slos=slos(overflow=0.09)), policy)
    assert (made(both)[0], both.mode) == (Knob.CAPACITY_FACTOR, Mode.AUTO)
    assert both.alternatives[0].lost_because is Reason.SHADOW


def test_the_flap_budget_holds_changes_and_reversals():
    breach = slos(overflow=0.09)
    six = tuple(change(Knob.CAPACITY_FACTOR, 60 * i + 60) for i in range(6, 0, -1))
    turns = tuple(change(Knob.CAPACITY_FACTOR, ago, d) for ago, d in
                  [(900, -1), (600, 1), (300, -1)])  # fmt: skip
    for changes in (six, turns):
        decision = decide(snapshot(slos=breach, changes=changes), DEFAULT)
        assert (decision.proposal, decision.reason) == (None, Reason.FLAP_BUDGET)
        assert decision.escalate


# --- the article's rule --------------------------------------------------------------------------


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
