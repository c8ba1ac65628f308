"""One evaluation: a snapshot and a policy in, one decision out. Pure, deterministic, level-based.

Order of preference: the bias when it is the cause, then overflow (answer quality), TPOT, TTFT, and
relaxing when everything has been calm. The first wish that passes its gates wins; every other one
is kept with the reason why it lost, also when nothing is done.
"""

from collections.abc import Sequence

from contract.admin import ConfigState
from controlplane.policy.bias_rule import bias_candidates
from controlplane.policy.candidate import Candidate
from controlplane.policy.capacity_rule import lower_capacity, raise_capacity
from controlplane.policy.decision import Alternative, Decision, Proposal, Reason
from controlplane.policy.gates import Hold, candidate_hold, world_hold
from controlplane.policy.knob import Knob, Mode
from controlplane.policy.latency_rules import (
    restore_chunk,
    restore_concurrency,
    tpot_candidates,
    ttft_candidates,
)
from controlplane.policy.literal_rule import literal_candidates
from controlplane.policy.policy import Policy, Strategy
from controlplane.policy.snapshot import Snapshot
from controlplane.slo.status import SloName, SloState, SloStatus

NEEDS_A_HUMAN = frozenset(
    {
        Reason.AT_BOUND, Reason.NO_FEASIBLE_ACTION, Reason.FLAP_BUDGET, Reason.QUARANTINED,
        Reason.KNOB_INERT, Reason.KNOB_ABSENT, Reason.NO_LAST_KNOWN_GOOD,
    }
)  # fmt: skip
"""Why the best wish lost, when that leaves a breach that only a human can mend."""


def decide(snapshot: Snapshot, policy: Policy) -> Decision:
    """At most one absolute change of one knob, or the reason for none.

    A freeze, stale data, an unreachable engine or an action under way hold everything. Wishes in
    shadow mode never keep one in another mode from acting.
    """
    hold = world_hold(snapshot)
    state = snapshot.config
    if hold is not None or state is None:
        held = hold or Hold(Reason.UNREACHABLE, "Holding: no config was read back.")
        return _nothing(policy, held.reason, held.explanation, ())
    if policy.strategy is Strategy.SEED_LITERAL:
        wishes = literal_candidates(snapshot, state.document.config)
    else:
        wishes = _wishes(snapshot, state, policy)
    return _choose(wishes, snapshot, policy)


def _wishes(snapshot: Snapshot, state: ConfigState, policy: Policy) -> list[Candidate]:
    config = state.document.config
    status = {slo.slo: slo for slo in snapshot.slos}
    overflow, tpot, ttft = (
        status.get(SloName.OVERFLOW), status.get(SloName.TPOT), status.get(SloName.TTFT)
    )  # fmt: skip
    wishes = bias_candidates(snapshot)
    overflows, slow = _breached(overflow), _breached(tpot)
    if overflow is not None and overflows:
        raised = raise_capacity(snapshot, config, policy.capacity, overflow)
        wishes.append(_arbitrated(raised, tpot, policy) if slow and tpot is not None else raised)
    if tpot is not None and slow and not overflows:
        wishes += tpot_candidates(snapshot, config, policy, tpot)
    if ttft is not None and tpot is not None and _breached(ttft) and not slow:
        wishes += ttft_candidates(snapshot, config, policy, ttft, tpot)
    if not wishes and _calm(snapshot):
        wishes += _relaxing(snapshot, state, policy)
    return wishes


def _arbitrated(raised: Candidate, tpot: SloStatus, policy: Policy) -> Candidate:
    """With overflow and TPOT both in breach, C goes up only if TPOT has room at that rung.

    Smaller steps overflow more, so cutting concurrency is no cure: without room, page.
    """
    cost = policy.capacity.tpot_cost_ratio
    room = tpot.room_ratio
    if raised.blocked is not None or (room is not None and room >= cost):
        return raised
    return Candidate(
        knob=raised.knob, current=raised.current, target=raised.target, direction=1,
        reason=Reason.OVERFLOW_BREACH, target_slo=SloName.OVERFLOW,
        blocked=Reason.NO_FEASIBLE_ACTION, predicted=raised.predicted,
        explanation=(
            "Overflow and TPOT are both in breach. Raising C costs TPOT that it does not have, and "
            "fewer running sequences overflow more: a human must add capacity or shed load."
        ),
    )  # fmt: skip


def _relaxing(snapshot: Snapshot, state: ConfigState, policy: Policy) -> list[Candidate]:
    config = state.document.config
    found = [
        restore_concurrency(snapshot, config, policy),
        restore_chunk(snapshot, config),
        lower_capacity(snapshot, config, policy.capacity),
    ]
    wishes = [candidate for candidate in found if candidate is not None]
    floor = policy.budget_floor_ratio
    if floor is None:
        return wishes
    low = [
        slo.slo for slo in snapshot.slos
        if slo.budget_remaining_ratio is not None and slo.budget_remaining_ratio < floor
    ]  # fmt: skip
    if not low:
        return wishes
    told = f"The error budget of {', '.join(low)} is below {floor:.0%}: nothing is relaxed."
    return [_blocked(candidate, Reason.BUDGET_SPENT, told) for candidate in wishes]


def _blocked(candidate: Candidate, reason: Reason, told: str) -> Candidate:
    return Candidate(
        knob=candidate.knob, current=candidate.current, target=candidate.target,
        direction=candidate.direction, reason=candidate.reason, explanation=told,
        predicted=candidate.predicted, blocked=reason, relax=candidate.relax,
    )  # fmt: skip


def _choose(wishes: Sequence[Candidate], snapshot: Snapshot, policy: Policy) -> Decision:
    lost: list[tuple[Candidate, Hold]] = []
    shadow: Candidate | None = None
    for index, wish in enumerate(wishes):
        hold = candidate_hold(wish, snapshot, policy)
        if hold is not None:
            lost.append((wish, hold))
        elif policy.mode(wish.knob) is Mode.SHADOW and shadow is None:
            shadow = wish
        elif policy.mode(wish.knob) is not Mode.SHADOW:
            if shadow is not None:
                lost.append((shadow, Hold(Reason.SHADOW, f"{shadow.knob} is in shadow mode.")))
            rest = [(other, _outranked(wish)) for other in wishes[index + 1 :]]
            return _proposed(wish, snapshot, policy, [*lost, *rest])
    if shadow is not None:
        return _proposed(shadow, snapshot, policy, lost)
    if lost:
        wish, hold = lost[0]
        breach = wish.target_slo is not None or wish.reason is Reason.BIAS_DRIFT
        return _nothing(
            policy, hold.reason, hold.explanation, _alternatives(lost),
            escalate=breach and hold.reason in NEEDS_A_HUMAN,
        )  # fmt: skip
    return _idle(snapshot, policy)


def _outranked(winner: Candidate) -> Hold:
    return Hold(
        Reason.OUTRANKED,
        f"One change at a time: {winner.knob} to {str(winner.target)[:12]} comes first.",
    )


def _proposed(
    wish: Candidate, snapshot: Snapshot, policy: Policy, lost: Sequence[tuple[Candidate, Hold]]
) -> Decision:
    at_baseline = snapshot.baseline.get(wish.knob) == wish.target
    leased = wish.knob is not Knob.ROUTER_BIAS and not at_baseline
    return Decision(
        policy=policy.name, mode=policy.mode(wish.knob), reason=wish.reason,
        explanation=wish.explanation,
        proposal=Proposal(
            knob=wish.knob, current=wish.current, target=wish.target, direction=wish.direction,
            target_slo=wish.target_slo, relax=wish.relax,
            lease_seconds=policy.lease_seconds if leased else None,
        ),
        alternatives=_alternatives(lost),
    )  # fmt: skip


def _alternatives(lost: Sequence[tuple[Candidate, Hold]]) -> tuple[Alternative, ...]:
    return tuple(
        Alternative(
            knob=wish.knob, target=wish.target, predicted=wish.predicted,
            lost_because=hold.reason, explanation=hold.explanation,
        )
        for wish, hold in lost
    )  # fmt: skip


def _idle(snapshot: Snapshot, policy: Policy) -> Decision:
    breached = [slo for slo in snapshot.slos if _breached(slo)]
    if breached:
        names = ", ".join(slo.slo for slo in breached)
        return _nothing(
            policy, Reason.NO_FEASIBLE_ACTION,
            f"{names} in breach, and no knob has a direction that helps: {breached[0].message}",
            (), escalate=True,
        )  # fmt: skip
    unsure = [slo.slo for slo in snapshot.slos if slo.state is not SloState.MET]
    if unsure or not snapshot.slos:
        names = ", ".join(unsure) or "every SLO"
        return _nothing(
            policy, Reason.INCONCLUSIVE, f"Not enough events to judge {names}: nothing is done.", ()
        )
    return _nothing(policy, Reason.HEALTHY, "All SLOs are met and nothing drifts.", ())


def _nothing(
    policy: Policy,
    reason: Reason,
    explanation: str,
    alternatives: tuple[Alternative, ...],
    *,
    escalate: bool = False,
) -> Decision:
    modes = [rules.mode for rules in policy.knobs.values()]
    return Decision(
        policy=policy.name, mode=max(modes, key=list(Mode).index, default=Mode.OFF), reason=reason,
        explanation=explanation, alternatives=alternatives, escalate=escalate,
    )  # fmt: skip


def _breached(slo: SloStatus | None) -> bool:
    return slo is not None and slo.state is SloState.BREACHED


def _calm(snapshot: Snapshot) -> bool:
    """All three SLOs are calm (burn at most half the entry threshold for the relax time)."""
    return len(snapshot.slos) == len(SloName) and all(slo.calm for slo in snapshot.slos)
