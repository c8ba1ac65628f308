import pytest

from controlplane.detectors.finding import Cause, DetectorName, FindingState
from controlplane.policy.builtin import DEFAULT, FAST
from controlplane.policy.decide import decide
from controlplane.policy.decision import Reason
from controlplane.policy.knob import Knob, Mode
from controlplane.policy.snapshot import BiasFacts
from controlplane.slo.status import SloName
from tests.support.snapshots import (
    BAD,
    GOOD,
    NOW,
    blamed,
    change,
    drift,
    drifted,
    known,
    made,
    slos,
)


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
