import pytest

from contract.runtime_config import RuntimeConfig
from controlplane.policy.decision import Proposal
from controlplane.policy.knob import Knob
from controlplane.policy.measurement import Latency, Measurement
from controlplane.policy.policy import VerifyPlan
from controlplane.policy.verdict import Verdict
from controlplane.policy.verify import verify
from controlplane.slo.status import SloName
from tests.support.snapshots import BAD, GOOD

PLAN = VerifyPlan()


def side(**parts):
    usual = {
        "seconds": 120.0, "config": RuntimeConfig(router_bias=GOOD), "live_bias": GOOD,
        "ttft": Latency(bad=0, total=200, p99=0.1), "tpot": Latency(bad=0, total=200, p99=0.02),
        "overflow": 1000, "assignments": 100_000, "overflow_slices": (0.01,) * 12,
        "share_distance": 0.0, "gate_mass_kept_ratio": 0.98, "probe_nll": 1.5,
    }  # fmt: skip
    return Measurement.model_validate({**usual, **parts})


def overflowing(ratio, **parts):
    slices = tuple(ratio * (1 + 0.05 * (-1) ** i) for i in range(12))
    return side(overflow=int(100_000 * ratio), overflow_slices=slices, **parts)


def rollback(target_slo=None):
    return Proposal(
        knob=Knob.ROUTER_BIAS, current=BAD, target=GOOD, direction=-1, target_slo=target_slo
    )


def raise_c(target="1.5"):
    return Proposal(
        knob=Knob.CAPACITY_FACTOR, current="1.25", target=target, direction=1,
        target_slo=SloName.OVERFLOW,
    )  # fmt: skip


RAISED = RuntimeConfig(router_bias=GOOD, capacity_factor="1.5")


def row(result, name):
    return next(row for row in result.rows if row.name == name)


# --- a drift caught early: no SLO was in breach ---------------------------------------------------


def test_an_early_rollback_passes_by_its_live_hash_agreeing_shares_and_guards():
    result = verify(side(live_bias=BAD, share_distance=0.2), side(), rollback(), PLAN)
    assert result.verdict is Verdict.PASS
    assert result.weak
    assert not result.final


@pytest.mark.parametrize(
    ("after", "name"),
    [
        ({"live_bias": BAD}, "applied"),
        ({"share_distance": 0.1}, "shares agree"),
        ({"probe_nll": 1.7}, "probe loss"),
        ({"gate_mass_kept_ratio": 0.8}, "gate mass kept"),
        ({"ttft": Latency(bad=40, total=200)}, "ttft guard"),
        ({"tpot": Latency(bad=40, total=200)}, "tpot guard"),
        ({"overflow": 9000, "overflow_slices": (0.09,) * 12}, "overflow guard"),
    ],
)
def test_an_early_rollback_fails_on_any_row(after, name):
    result = verify(side(live_bias=BAD), side(**after), rollback(), PLAN)
    assert result.verdict is Verdict.FAIL
    assert row(result, name).verdict is Verdict.FAIL
    assert name in result.message


def test_a_guard_in_breach_ends_the_verification_at_once_but_a_late_hash_does_not():
    assert verify(side(), side(probe_nll=2.0), rollback(), PLAN).final
    assert not verify(side(), side(live_bias=BAD), rollback(), PLAN).final


def test_thin_guards_do_not_hold_back_a_bias_rollback():
    thin = side(ttft=Latency(total=3), tpot=Latency(total=0), assignments=100)
    result = verify(side(live_bias=BAD), thin, rollback(), PLAN)
    assert result.verdict is Verdict.PASS
    assert row(result, "ttft guard").verdict is Verdict.INCONCLUSIVE


def test_no_frame_since_the_change_cannot_say():
    result = verify(side(), Measurement(), rollback(), PLAN)
    assert result.verdict is Verdict.INCONCLUSIVE


def test_better_balance_alone_never_passes_when_the_probe_got_worse():
    before = side(live_bias=BAD, share_distance=0.4)
    result = verify(before, side(share_distance=0.0, probe_nll=2.5), rollback(), PLAN)
    assert result.verdict is Verdict.FAIL


# --- a target SLO was in breach -------------------------------------------------------------------

BREACH = overflowing(0.09, breached=(SloName.OVERFLOW,))


def test_a_breached_overflow_must_improve():
    result = verify(BREACH, overflowing(0.03, config=RAISED), raise_c(), PLAN)
    assert result.verdict is Verdict.PASS
    assert row(result, "overflow improves").before == pytest.approx(0.09)


def test_no_improvement_fails_and_is_not_final():
    result = verify(BREACH, overflowing(0.095, config=RAISED), raise_c(), PLAN)
    assert result.verdict is Verdict.FAIL
    assert not result.final


def test_few_slices_are_judged_by_a_tenth_of_improvement():
    before = BREACH.model_copy(update={"overflow_slices": (0.09,)})
    for ratio, verdict in ((0.08, Verdict.PASS), (0.085, Verdict.INCONCLUSIVE)):
        after = overflowing(ratio, config=RAISED).model_copy(update={"overflow_slices": (ratio,)})
        assert verify(before, after, raise_c(), PLAN).verdict is verdict


def test_too_few_assignments_cannot_say():
    after = side(config=RAISED, overflow=10, assignments=1000)
    assert verify(BREACH, after, raise_c(), PLAN).verdict is Verdict.INCONCLUSIVE


def test_a_mended_overflow_that_costs_tpot_fails_at_once():
    after = overflowing(0.02, config=RAISED, tpot=Latency(bad=60, total=200))
    result = verify(BREACH, after, raise_c(), PLAN)
    assert (result.verdict, result.final) == (Verdict.FAIL, True)


def test_a_rollback_of_a_breach_must_mend_it_too():
    before = overflowing(0.09, breached=(SloName.OVERFLOW,), live_bias=BAD)
    result = verify(before, overflowing(0.09), rollback(SloName.OVERFLOW), PLAN)
    assert result.verdict is Verdict.FAIL


def cut(**parts):
    return Proposal(knob=Knob.MAX_CONCURRENCY, current=64, target=51, direction=-1, **parts)


FEWER = RuntimeConfig(router_bias=GOOD, max_concurrency=51)
SLOW = side(tpot=Latency(bad=120, total=200), breached=(SloName.TPOT,))


@pytest.mark.parametrize(
    ("bad", "total", "verdict"),
    [
        (4, 200, Verdict.PASS),
        (130, 200, Verdict.FAIL),
        (118, 200, Verdict.INCONCLUSIVE),
        (0, 10, Verdict.INCONCLUSIVE),
    ],
)
def test_a_breached_latency_must_improve_beyond_chance(bad, total, verdict):
    after = side(config=FEWER, tpot=Latency(bad=bad, total=total))
    assert verify(SLOW, after, cut(target_slo=SloName.TPOT), PLAN).verdict is verdict


def test_with_concurrent_controls_their_own_change_is_taken_off_and_it_is_not_weak():
    after = side(config=FEWER, tpot=Latency(bad=10, total=200))
    control = (SLOW, side(tpot=Latency(bad=10, total=200)))
    result = verify(SLOW, after, cut(target_slo=SloName.TPOT), PLAN, control=control)
    assert not result.weak
    assert result.verdict is not Verdict.PASS


# --- relaxing -------------------------------------------------------------------------------------


def lower_c():
    return Proposal(
        knob=Knob.CAPACITY_FACTOR, current="1.5", target="1.25", direction=-1, target_slo=None,
        relax=True,
    )  # fmt: skip


def test_a_step_down_may_overflow_more_as_long_as_the_objective_holds():
    config = RuntimeConfig(router_bias=GOOD)
    before = overflowing(0.01, config=RAISED)
    for ratio, verdict in ((0.035, Verdict.PASS), (0.06, Verdict.FAIL)):
        after = overflowing(ratio, config=config)
        assert verify(before, after, lower_c(), PLAN).verdict is verdict


def test_a_relaxation_without_requests_to_judge_by_cannot_say():
    after = side(config=RuntimeConfig(router_bias=GOOD), ttft=Latency(total=2))
    result = verify(side(config=RAISED), after, lower_c(), PLAN)
    assert result.verdict is Verdict.INCONCLUSIVE


# --- guards that overload and chance must not turn into vetoes ------------------------------------


def fewer_sequences():
    return Proposal(
        knob=Knob.MAX_CONCURRENCY, current=64, target=32, direction=-1,
        target_slo=SloName.TPOT,
    )  # fmt: skip


CUT = RuntimeConfig(router_bias=GOOD, max_concurrency=32)
OVERLOADED = side(
    tpot=Latency(bad=150, total=200), ttft=Latency(bad=120, total=200),
    breached=(SloName.TTFT, SloName.TPOT),
)  # fmt: skip


def test_a_lower_slo_that_was_in_breach_does_not_veto_the_mend_of_a_higher_one():
    after = side(config=CUT, tpot=Latency(bad=2, total=200), ttft=Latency(bad=200, total=200))
    result = verify(OVERLOADED, after, fewer_sequences(), PLAN)
    assert result.verdict is Verdict.PASS
    assert "tpot comes first" in row(result, "ttft yields").message


def test_a_lower_slo_that_was_met_still_vetoes():
    before = OVERLOADED.model_copy(
        update={"ttft": Latency(bad=0, total=200), "breached": (SloName.TPOT,)}
    )
    after = side(config=CUT, tpot=Latency(bad=2, total=200), ttft=Latency(bad=200, total=200))
    result = verify(before, after, fewer_sequences(), PLAN)
    assert result.verdict is Verdict.FAIL
    assert row(result, "ttft guard").verdict is Verdict.FAIL


def test_a_higher_slo_in_breach_vetoes_the_mend_of_a_lower_one():
    proposal = fewer_sequences().model_copy(update={"target_slo": SloName.TTFT})
    before = side(ttft=Latency(bad=150, total=200), tpot=Latency(bad=20, total=200),
                  breached=(SloName.TTFT, SloName.TPOT))  # fmt: skip
    after = side(config=CUT, ttft=Latency(bad=2, total=200), tpot=Latency(bad=190, total=200))
    assert row(verify(before, after, proposal, PLAN), "tpot guard").verdict is Verdict.FAIL


@pytest.mark.parametrize(
    ("slices", "verdict"),
    [
        ((0.01, 0.12, 0.02, 0.11), Verdict.PASS),
        ((0.08, 0.09, 0.085, 0.095), Verdict.FAIL),
        ((0.08, 0.09), Verdict.INCONCLUSIVE),
    ],
)
def test_the_overflow_guard_goes_by_what_is_certain(slices, verdict):
    mean = sum(slices) / len(slices)
    after = side(overflow=int(100_000 * mean), overflow_slices=slices)
    assert row(verify(side(), after, rollback(), PLAN), "overflow guard").verdict is verdict


def overloaded(cells, bad):
    return side(
        config=CUT, breached=(SloName.TTFT, SloName.TPOT), ttft=Latency(bad=200, total=200),
        tpot=Latency(bad=bad, total=sum(cells), cells=cells),
    )  # fmt: skip


def test_a_gain_above_the_threshold_counts_when_nearly_every_request_is_over_it():
    before, after = overloaded((0, 0, 10, 190), 200), overloaded((0, 0, 150, 50), 200)
    result = verify(before, after, fewer_sequences(), PLAN)
    assert result.verdict is Verdict.PASS
    assert "requests are faster" in row(result, "tpot improves").message
    assert verify(after, before, fewer_sequences(), PLAN).verdict is Verdict.FAIL
    assert verify(before, before, fewer_sequences(), PLAN).verdict is Verdict.FAIL


def test_a_p99_above_the_last_bound_is_told_as_more_than_it():
    before, after = overloaded((0, 0, 10, 190), 200), overloaded((0, 0, 150, 50), 200)
    slow = before.tpot.model_copy(update={"p99": 2.5, "p99_is_more": True})
    quick = after.tpot.model_copy(update={"p99": 1.0})
    result = verify(
        before.model_copy(update={"tpot": slow}), after.model_copy(update={"tpot": quick}),
        fewer_sequences(), PLAN,
    )  # fmt: skip
    assert "p99 > 2500 ms became 1000 ms" in row(result, "tpot improves").message


@pytest.mark.parametrize(
    ("bad", "guard", "whole"),
    [
        (3, Verdict.PASS, Verdict.PASS),
        (20, Verdict.INCONCLUSIVE, Verdict.PASS),
        (60, Verdict.FAIL, Verdict.FAIL),
    ],
)
def test_only_a_breach_of_a_latency_guard_is_certain_enough_to_fail(bad, guard, whole):
    """Slow requests come in clumps; 14.4 % bad is where the governor sees a breach."""
    after = side(tpot=Latency(bad=bad, total=200))
    result = verify(side(live_bias=BAD), after, rollback(), PLAN)
    assert row(result, "tpot guard").verdict is guard
    assert result.verdict is whole
    chunk = Proposal(
        knob=Knob.CHUNK_SIZE, current=256, target=512, direction=1, relax=True, target_slo=None
    )
    relaxed = verify(side(), after, chunk, PLAN)
    assert relaxed.verdict is (whole if guard is not Verdict.INCONCLUSIVE else guard)
