from controlplane.policy.builtin import DEFAULT
from controlplane.policy.decide import decide
from controlplane.policy.decision import Reason
from controlplane.policy.knob import Knob
from tests.support.snapshots import (
    config_state,
    known,
    load,
    made,
    slos,
    snapshot,
)


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
