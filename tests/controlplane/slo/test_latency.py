from controlplane.slo.evaluate import evaluate
from controlplane.slo.latency import bad_and_total
from controlplane.slo.settings import SloSettings
from controlplane.slo.status import SloName, SloState
from tests.support.engine_windows import START, histogram, window

SETTINGS = SloSettings()


def flow(per_window, *, seconds=10.0):
    """Windows of (good, bad) requests, TTFT and TPOT alike."""
    return [
        window(
            i, seconds=seconds,
            by_generation={
                1: {
                    "ttft": histogram("ttft", good=good, bad=bad, threshold=0.2),
                    "tpot": histogram("tpot", good=good, bad=bad, threshold=0.05),
                }
            },
        )
        for i, (good, bad) in enumerate(per_window)
    ]  # fmt: skip


def ttft(per_window, *, late=1.0, settings=SETTINGS):
    windows = flow(per_window)
    at = (windows[-1].end if windows else START) + late
    return evaluate(windows, at, settings)[0]


def tier(status, name):
    return next(tier for tier in status.tiers if tier.tier == name)


def test_fast_requests_meet_the_objective():
    found = ttft([(100, 0)] * 60)
    assert found.slo is SloName.TTFT
    assert found.state is SloState.MET
    assert found.budget_remaining_ratio == 1.0
    assert 0 < found.room_ratio < 1


def test_a_p99_above_the_last_bound_is_told_as_more_than_it():
    cells = histogram("ttft", good=50, bad=0, threshold=0.2)
    cells[-1] = 50
    found = evaluate([window(0, by_generation={1: {"ttft": cells}})], START + 11, SETTINGS)[0]
    assert (found.value, found.value_is_more) == (60.0, True)
    assert "(p99 > 60000 ms)" in found.message


def test_a_burst_of_slow_requests_breaches_the_fast_tier_within_a_minute():
    found = ttft([(100, 0)] * 57 + [(60, 40)] * 3)
    assert found.state is SloState.BREACHED
    assert tier(found, "act-fast").state is SloState.BREACHED
    assert found.value > 0.2
    assert found.room_ratio < 0


def test_a_past_burst_does_not_breach_since_the_short_window_is_clean():
    found = ttft([(100, 0)] * 55 + [(20, 80)] * 4 + [(100, 0)])
    assert tier(found, "act-fast").burn_long > 14.4
    assert tier(found, "act-fast").state is SloState.MET


def test_a_slow_burn_breaches_the_slow_tier_only():
    found = ttft([(95, 5)] * 60)
    assert tier(found, "act-fast").state is SloState.MET
    assert tier(found, "act-slow").state is SloState.BREACHED
    assert found.state is SloState.BREACHED


def test_a_handful_of_requests_is_inconclusive_however_bad():
    found = ttft([(0, 0)] * 59 + [(1, 2)])
    assert found.state is SloState.INCONCLUSIVE
    assert "too few to judge" in found.message


def test_thin_traffic_lengthens_the_windows_up_to_ten_times():
    found = ttft([(1, 1)] * 60)
    fast = tier(found, "act-fast")
    assert fast.long_seconds == 300
    assert fast.short_seconds == 50
    assert fast.state is SloState.BREACHED


def test_no_frame_for_long_is_stale_never_met():
    found = ttft([(100, 0)] * 60, late=31.0)
    assert found.state is SloState.STALE
    assert not found.calm


def test_no_telemetry_at_all_is_stale():
    assert {slo.state for slo in evaluate([], START, SETTINGS)} == {SloState.STALE}


def test_calm_needs_the_whole_relax_time():
    assert ttft([(100, 0)] * 60).calm
    assert not ttft([(100, 0)] * 20).calm
    assert not ttft([(100, 0)] * 40 + [(95, 5)] * 2 + [(100, 0)] * 18).calm


def test_one_slow_request_does_not_spoil_the_calm():
    assert ttft([(100, 0)] * 40 + [(99, 1)] + [(100, 0)] * 19).calm


def test_a_spent_budget_is_negative():
    assert ttft([(90, 10)] * 60).budget_remaining_ratio < 0


def test_only_requests_of_the_asked_generation_are_counted():
    assert bad_and_total(flow([(5, 5)]), "tpot", 0.05, generations=(1,)) == (5, 10)
    assert bad_and_total(flow([(5, 5)]), "tpot", 0.05, generations=(2,)) == (0, 0)
